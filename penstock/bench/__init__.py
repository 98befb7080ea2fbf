"""The benchmark: the same questions to Penstock and its peers, timed, every result checked against the batch answer.

Takes workloads and system names, gives measurements. Only `spark_native` imports pyspark, and only `penstock_system`
uses Penstock itself, through its public API. Nothing but the command line imports this package.
"""
