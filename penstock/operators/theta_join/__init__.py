"""Joins on any condition, spread over a grid of cells."""
