"""Epochs as jobs of Spark: splits as an RDD, one shuffle per level, and where tasks run."""
