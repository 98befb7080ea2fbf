"""Connectors: sources of rows and sinks of results. A connector is a frozen value; the driver plans splits, tasks read
them.

`source` has the protocol of sources, `sinks` that of sinks. Never imports pyspark.
"""
