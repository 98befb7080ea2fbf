"""Aggregate functions (`count`, `sum`, `min`, `variance`, ...) as partials that can be merged."""
