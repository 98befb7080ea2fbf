"""A source of files: listing, cutting into splits, and reading each format."""
