"""Sinks: tasks stage files of rows; after the commit of the epoch the driver publishes them.

Sinks depend on checkpoints only for staging, and never on pyspark.
"""
