"""A pool of long-lived Spark tasks (workers) that run epoch after epoch."""
