"""Stateful operators: what each keeps as state, and what it gives for the rows and the progress of an epoch.

`protocol` is what an operator is to the engine. A folder is one operator; `aggregates` is what several of them share.
"""
