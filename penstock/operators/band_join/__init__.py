"""Joins on equal keys within bands of time (interval joins), of two or more inputs, inner and outer."""
