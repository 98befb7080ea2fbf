"""The engine: route, merge, the site step and its work list, commit, recovery. Functions over blobs and a checkpoint.

It needs no Spark: an executor runs the tasks of an epoch, in this process (`inline`) or elsewhere (`runtime`). May
import everything but api, sql, runtime, cli, bench.
"""
