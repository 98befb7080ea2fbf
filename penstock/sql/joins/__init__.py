"""Plan joins: turn the tree of FROM and its conditions into Join nodes."""
