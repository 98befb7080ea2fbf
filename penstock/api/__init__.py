"""The Python face: streams, windows, aggregates, and the handle of a running query. It builds plans and starts them.

Sits on top: it may import everything but cli and bench; nothing below imports it.
"""
