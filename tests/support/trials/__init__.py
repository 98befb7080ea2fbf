"""Random trials: a query run in random ways against the batch answer, made smaller where it fails, written as text."""
