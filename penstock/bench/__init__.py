"""The benchmarks: the same questions to Penstock and its peers, and to Penstock in order and out of order; every result
is checked against the batch answer.

Takes workloads and system names, or experiments on order, and gives measurements. Only `spark_native` imports pyspark;
only `penstock_system` and what is about order use Penstock itself. Nothing but the command line imports this package.
"""
