"""State: the key hash, the directory of partition groups, runs and slices of them, compaction.

Runs are immutable and sorted by key hash; a partition group is a hash prefix; so a group is a slice of every run. May
import errors and progress.
"""
