"""State as immutable values: the directory of partition groups, hash ranges, runs and their slices, compaction. Pure.

Runs are immutable and sorted by key hash, and a partition group is a hash prefix, so a group is one slice of every run.
"""
