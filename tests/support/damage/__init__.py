"""Checkpoints with damaged files: each must lead to an error in three parts, or to the right answer."""
