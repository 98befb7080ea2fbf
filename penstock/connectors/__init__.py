"""Sources: where rows come from. Each connector is a frozen value; the driver asks it for splits, tasks read splits.

`source` is what a source is to the engine, `sinks` are where results go. Never imports pyspark.
"""
