"""Files on disk: run files of state and their blocks, durable writes, and errors of the disk."""
