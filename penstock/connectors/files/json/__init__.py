"""JSON lines, nested values included."""
