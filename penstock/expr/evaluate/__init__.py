"""Evaluation of expressions over Arrow tables: by DuckDB, or by Arrow kernels for the most common simple
expressions."""
