"""Checkpoints with damaged files: each ends in an error in three parts, or with the right answer."""
