"""From trees to expressions: what names, functions and aggregates mean."""
