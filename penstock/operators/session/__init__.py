"""Aggregates over sessions: rows of a key that follow each other in less than a gap."""
