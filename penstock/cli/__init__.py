"""Command line: `penstock run`, `explain`, `demo`, `bench`; and `scale`, `move`, `split`, `rebalance` and `top` for
running queries.

The top layer. A command imports what it needs when it runs, so that `--help` and completion are quick.
"""
