"""Workers that stay: a pool of Spark tasks that serve epoch after epoch."""
