"""Readable query tests in plain text: reading them, running them, checking what came out."""
