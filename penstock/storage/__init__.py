"""Files on disk: run files of state and their blocks, the memory that they take, durable writes, errors of the disk."""
