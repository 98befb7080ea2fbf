"""Aggregates over sessions: rows of a key less than a gap apart."""
