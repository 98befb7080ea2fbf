"""Experiments beside the workloads: what an epoch, a slide, expiry and a row of state cost, and how late results are.

Each is an `Experiment`: it takes a setting and gives a table, bars with their verdicts, and pictures. What needs a
process of its own is a part (`*_run.py`).
"""
