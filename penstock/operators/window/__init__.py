"""Aggregates over time windows: rows are aggregated to partials per key and pane, and panes to windows."""
