"""Query plans as immutable values: logical nodes, passes that rewrite them, and the subqueries that they are compiled
to.

A pass is a function from node to node; one tuple lists the passes.
"""
