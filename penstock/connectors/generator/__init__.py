"""A source of generated call records with a chosen disorder and skew."""
