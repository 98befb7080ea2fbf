"""Finds the streams of a Python module by reading it: running it could start queries that nobody asked for."""

from __future__ import annotations

import ast
from pathlib import Path

_MODULE = "penstock"
_STARTS_STREAM = {"read", "join_all"}  # what of the package gives a stream
_ENDS_STREAM = {"start", "wait", "explain", "schema", "times"}  # what of a stream gives something else


def streams_in(path: Path) -> list[str]:
    """The names that a module assigns streams to, in order; none where it cannot be parsed."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return []
    packages = {alias.asname or _MODULE for node in ast.walk(tree) for alias in _aliases(node)}
    found: list[str] = []
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=targets, value=value) if _is_stream(value, packages, found):
                found += [name for target in targets for name in _names(target) if name not in found]
    return found


def _aliases(node: ast.AST) -> list[ast.alias]:
    return [alias for alias in node.names if alias.name == _MODULE] if isinstance(node, ast.Import) else []


def _is_stream(value: ast.expr, packages: set[str], streams: list[str]) -> bool:
    root, path = _chain(value)
    if not path or _ENDS_STREAM & set(path):
        return False
    return root in streams or (root in packages and path[0] in _STARTS_STREAM)


def _chain(value: ast.expr) -> tuple[str, list[str]]:
    """The name that an expression begins with, and the attributes that are asked of it: `ps.read.files(...).where(...)`
    is `ps` and `read`, `files`, `where`."""
    path: list[str] = []
    while True:
        match value:
            case ast.Call(func=below) | ast.Subscript(value=below):
                value = below
            case ast.Attribute(value=below, attr=name):
                path.insert(0, name)
                value = below
            case ast.Name(id=root):
                return root, path
            case _:
                return "", []


def _names(target: ast.expr) -> list[str]:
    match target:
        case ast.Name(id=name):
            return [name]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [name for part in parts for name in _names(part)]
    return []
