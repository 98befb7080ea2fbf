"""From text to tokens, statements and the trees of sqlglot."""
