"""Whether a result is right: the batch answer by DuckDB, and comparisons of rows."""
