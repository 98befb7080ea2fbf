"""The engine: tasks that route rows and run the steps of sites, and the driver that plans and commits epochs.

It needs no Spark: an executor runs the tasks of an epoch, in this process (`driver.executor`) or elsewhere (`spark`).
"""
