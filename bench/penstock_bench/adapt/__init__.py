"""`penstock bench adapt`: queries that rebalance and rescale themselves while they run, each beside the static run.

Every one is an `Experiment`. Where the cost of a row is slept, as many sites as an experiment wants fit on two cores.
"""
