"""Command line: `penstock run`, `explain`, `demo`; and `scale`, `move`, `split`, `rebalance` and `top` for running
queries. Other distributions can add commands, as the benchmark adds `bench`.

The top layer. A command imports what it needs when it runs, so that `--help` and completion are quick.
"""
