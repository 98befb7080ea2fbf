"""Random trials: a query run in random ways against the batch answer; failing ones are shrunk and written as text."""
