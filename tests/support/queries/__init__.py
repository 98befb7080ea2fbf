"""Random rows and random queries, drawn from a seed."""
