"""The command line: `penstock run`, `explain`, `demo` and `bench`.

Sits on top of everything. A command imports what it needs when it runs, so that `--help` and completion are quick.
"""
