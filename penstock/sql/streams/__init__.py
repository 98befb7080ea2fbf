"""One item of FROM: a source, a view, a query in parentheses, a union, or a window over one of them."""
