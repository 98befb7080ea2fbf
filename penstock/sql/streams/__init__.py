"""One item of FROM: a source, a view, a subquery, a union, or a window over one of them."""
