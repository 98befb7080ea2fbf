"""Sources of generated rows, with a chosen disorder and skew."""
