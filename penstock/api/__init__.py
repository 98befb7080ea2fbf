"""Python API: streams, windows, aggregates, and the handle of a running query. Builds plans and starts them.

May import every package except cli and bench; no package below imports it.
"""
