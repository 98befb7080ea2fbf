"""Run epochs on Spark: the session, executors, and the source adapter. The only folder that imports pyspark."""
