"""Which nodes of a plan are equal: they are computed once."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from penstock.plan.fingerprint import describe
from penstock.plan.logical import MapBatches, Node, inputs_of

_INPUTS = ("input", "inputs")


class EqualNodes:
    """Numbers nodes, equal ones alike. A node is described by the numbers of its inputs, so that a long chain of them
    costs no more than its length. Invariant: `_seen` keeps each node that has been numbered, so that ids stay its."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Node, int]] = {}
        self._numbers: dict[str, int] = {}

    def number(self, node: Node) -> int:
        if id(node) not in self._seen:
            described = json.dumps([_own(node), [self.number(part) for part in inputs_of(node)]], sort_keys=True)
            self._seen[id(node)] = node, self._numbers.setdefault(described, len(self._numbers))
        return self._seen[id(node)][1]


def _own(node: Node) -> dict[str, Any]:
    """What a node is besides its inputs. Two Python functions may have one name, as lambdas do."""
    own = {f.name: describe(getattr(node, f.name)) for f in fields(node) if f.name not in _INPUTS}
    function = {"#": id(node.function.call)} if isinstance(node, MapBatches) else {}
    return {"is": type(node).__name__, **own, **function}
