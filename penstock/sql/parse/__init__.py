"""Turn text into tokens, statements and sqlglot trees."""
