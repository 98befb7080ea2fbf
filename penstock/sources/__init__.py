"""Sources: where rows come from. Each connector is a frozen value; the driver asks it for splits, tasks read splits.

May import errors, schema, expressions, progress; never pyspark.
"""
