"""Epochs as Spark jobs: splits as an RDD, one shuffle per level, and where tasks run."""
