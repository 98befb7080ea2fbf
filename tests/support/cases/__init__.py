"""Readable query tests in plain text: parse them, run them, check the outcome."""
