"""Rows with the windows they are in, for queries that do not aggregate them."""

from __future__ import annotations

from dataclasses import replace

from penstock.expr.tree import Column, Named
from penstock.operators.window.windows import Window
from penstock.plan.logical import Node, Project, Windows
from penstock.plan.naming import unique_name
from penstock.plan.schema import WINDOW_COLUMNS, columns_of_node


def windowed(node: Node, window: Window) -> Windows:
    """The rows of each window. Columns that are called like its borders get `input_` before their names."""
    columns = columns_of_node(node)
    clashing = [name for name in columns if name.lower() in WINDOW_COLUMNS]
    if not clashing:
        return Windows(node, window)
    names = {name: unique_name(f"input_{name}", columns) for name in clashing}
    renamed = Project(node, tuple(Named(names.get(name, name), Column(name)) for name in columns))
    return Windows(renamed, replace(window, time=names.get(window.time, window.time)))
