"""Aggregates over windows of time: rows become partials per key and pane, and panes become windows."""
