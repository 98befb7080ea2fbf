"""The systems under measurement."""
