"""Run queries: tasks that route rows and run site steps, and the driver that plans and commits epochs.

The engine does not need Spark: an executor runs the tasks of an epoch in this process (`driver.executor`) or elsewhere
(`spark`).
"""
