"""Plan joins: from the tree of FROM and its conditions to Join nodes."""
