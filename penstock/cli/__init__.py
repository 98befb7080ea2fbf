"""The command line: `penstock run`, `explain`, `demo`, `bench`; `scale`, `move`, `split`, `rebalance` and
`top` of what runs.

Sits on top of everything. A command imports what it needs when it runs, so that `--help` and completion are quick.
"""
