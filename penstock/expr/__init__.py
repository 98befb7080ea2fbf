"""Scalar expressions: the tree, its text, and the functions it may call. Everything may import it."""
