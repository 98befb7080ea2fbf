"""Shrink a failing trial: fewer operators, simpler settings, fewer batches and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa

from penstock.connectors.memory import MemoryConnector
from penstock.errors import PenstockError
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import Join, Node, Source, Union, inputs_of
from penstock.testing.source_rows import connector_of, nodes_of, sources_of, with_sources
from tests.support.trials.trial import Trial, plainer_ways

_ONE_BY_ONE = 12  # at most this many rows are left out one at a time


def shrunk(trial: Trial, fails: Callable[[Trial], bool], most_tries: int = 400) -> Trial:
    """Return a smaller trial that still fails and from which nothing can be left out; or the smallest after
    `most_tries`."""
    left = most_tries
    while left > 0:
        for candidate in simpler(trial):
            left -= 1
            if fails(candidate):
                trial = candidate
                break
            if left <= 0:
                return trial
        else:
            return trial
    return trial


def simpler(trial: Trial) -> Iterator[Trial]:
    """Yield trials with slightly less in them; those that leave out most come first."""
    yield from (replace(trial, node=node) for node in _smaller_queries(trial.node))
    yield from (replace(trial, ways=ways) for ways in plainer_ways(trial.ways))
    if trial.order != "any" or trial.grid != "1x1":
        yield replace(trial, order="any", grid="1x1")
    for source in sources_of(trial.node).values():
        for connector in _smaller(connector_of(source)):
            yield replace(trial, node=_replaced(trial.node, source, replace(source, connector=connector)))


def _smaller_queries(node: Node) -> Iterator[Node]:
    """Yield parts of the query, smallest first; then the query with one node left out."""
    parts = list(nodes_of(node))[1:]
    yield from sorted((p for p in parts if not isinstance(p, Source)), key=lambda p: len(list(nodes_of(p))))
    yield from filter(_compiles, _with_one_left_out(node))


def _with_one_left_out(node: Node) -> Iterator[Node]:
    for n, part in enumerate(inputs_of(node)):
        yield part
        for smaller in _with_one_left_out(part):
            yield _with_input(node, n, smaller)


def _with_input(node: Node, n: int, part: Node) -> Node:
    match node:
        case Union(inputs) | Join(inputs):
            return replace(node, inputs=(*inputs[:n], part, *inputs[n + 1 :]))
        case Source():
            return node
    return replace(node, input=part)


def _compiles(node: Node) -> bool:
    """Return whether the node is a valid query."""
    try:
        node_schema(node)
    except (PenstockError, ValueError, KeyError):  # the names of a join may no longer fit its inputs
        return False
    return not isinstance(node, Source)


def _smaller(connector: MemoryConnector) -> Iterator[MemoryConnector]:
    """Yield connectors with fewer rows, half of them first; then with fewer batches, then with fewer splits."""
    yield from (replace(connector, batches=batches) for batches in _fewer(connector.batches))
    if connector.substreams:
        yield replace(connector, substreams=())
    else:
        yield from (replace(connector, batches=batches) for batches in _merged(connector.batches))
    if connector.splits_per_batch > 1:
        yield replace(connector, splits_per_batch=1)


def _fewer(batches: tuple[pa.Table, ...]) -> Iterator[tuple[pa.Table, ...]]:
    """Yield the batches without a range of rows, in ever smaller ranges."""
    total = sum(batch.num_rows for batch in batches)
    size = total
    while size > 1 and total:
        size = (size + 1) // 2
        for start in range(0, total, size) if size > 1 or total <= _ONE_BY_ONE else ():
            yield tuple(_without(batches, start, start + size))
    if total == 1:
        yield tuple(_without(batches, 0, 1))


def _merged(batches: tuple[pa.Table, ...]) -> Iterator[tuple[pa.Table, ...]]:
    """Yield the batches with two neighbours merged."""
    for n, (a, b) in enumerate(pairwise(batches)):
        yield (*batches[:n], pa.concat_tables([a, b]), *batches[n + 2 :])


def _without(batches: tuple[pa.Table, ...], start: int, end: int) -> Iterator[pa.Table]:
    """Yield the batches without the rows from `start` to `end`, counted over all batches."""
    first = 0
    for batch in batches:
        low, high = (min(max(bound - first, 0), batch.num_rows) for bound in (start, end))
        yield pa.concat_tables([batch.slice(0, low), batch.slice(high)])
        first += batch.num_rows


def _replaced(node: Node, source: Source, other: Source) -> Node:
    return with_sources(node, lambda found: other if found.name == source.name else found)
