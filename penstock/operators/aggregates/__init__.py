"""The aggregates of a query: `count`, `sum`, `min`, `variance` and the others, as partials that can be merged."""
