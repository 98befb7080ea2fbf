"""State of ten times the memory: Penstock and its peers on one join, side by side (`overflow-peers`)."""
