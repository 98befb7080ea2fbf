"""Scalar expressions: the tree, its SQL text, and the functions it may call. Any package may import it."""
