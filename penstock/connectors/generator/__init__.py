"""Generated rows: call records with a chosen disorder and skew."""
