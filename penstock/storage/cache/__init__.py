"""The run cache of a host: copies of runs, or of the blocks that its sites need."""
