"""Joins on arbitrary conditions, distributed over a grid of cells."""
