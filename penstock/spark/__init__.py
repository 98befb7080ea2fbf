"""The only folder that imports pyspark: the session, the job of an epoch, the adapter for Spark sources."""
