"""The benchmark: the same questions to Penstock and its peers, and to Penstock in order and out of order; every result
is checked against the batch answer.

Takes workloads and system names, or experiments, and gives measurements. It is a distribution of its own: Penstock
never imports it, and finds `penstock bench` through the entry point of `penstock_bench.cli`.
"""
