"""Files as a source: which files, where they are cut into splits, and what each format reads."""
