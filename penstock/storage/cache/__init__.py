"""The cache of a host: copies of runs, or of those blocks that its sites need."""
