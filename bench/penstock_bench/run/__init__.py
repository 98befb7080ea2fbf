"""Measured runs: who is asked what, in which process, and what came of it."""
