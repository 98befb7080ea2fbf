"""Sinks: where results go. Tasks stage files of rows; once the epoch is committed the driver publishes them.

They know of checkpoints only what staging needs; never pyspark.
"""
