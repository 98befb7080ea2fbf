"""Sinks: where results go. Tasks stage files of rows; once the epoch is committed the driver publishes them.

May import errors, checkpoint.durable and the fault registry; never pyspark.
"""
