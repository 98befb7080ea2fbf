"""Files on disk: runs of state and their blocks, durable writing, and what a disk may refuse."""
