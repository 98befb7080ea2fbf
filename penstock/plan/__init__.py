"""Plans as values: logical nodes, passes over them, and the subqueries they are cut into.

A pass is a function from node to node; one tuple lists them.
"""
