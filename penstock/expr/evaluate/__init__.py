"""Evaluate expressions over Arrow tables: by DuckDB, or on fast paths that need no DuckDB."""
