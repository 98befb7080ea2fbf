"""The plan as people read it."""
