"""Interval joins: joins of two or more inputs on equal keys within bands of time, inner and outer."""
