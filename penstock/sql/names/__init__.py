"""Turn sqlglot trees into expressions: resolve names, functions and aggregates."""
