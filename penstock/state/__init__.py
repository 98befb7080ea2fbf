"""State as values: the directory of partition groups, hash ranges, runs and slices of them, compaction. Pure.

Runs are immutable and sorted by key hash; a partition group is a hash prefix; so a group is a slice of every run.
"""
