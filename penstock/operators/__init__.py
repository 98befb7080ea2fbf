"""Stateful operators: the state each of them keeps, and the results it computes from an epoch's rows and progress.

`protocol` is the interface between operators and the engine. Each folder holds one operator, except `aggregates`, which
several operators share.
"""
