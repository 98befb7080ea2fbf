"""JSON lines, with nested values."""
