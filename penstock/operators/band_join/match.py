"""Joining input by input: extend partial combinations with their matches in a piece of the next input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray
from penstock.expr.evaluate.scalar import keep
from penstock.expr.tree import Expr
from penstock.expr.walk import columns_of
from penstock.kernels.arrays import Flags, Indices, Times, Words
from penstock.operators.arrange import gathered
from penstock.operators.band_join.probes import CandidateRanges, Probes, candidates, probes
from penstock.operators.band_join.state_rows import Port, StateRows
from penstock.operators.bands import Leads
from penstock.types import row_numbers

_BLOCK = 1 << 17  # rows that are probed at a time
_ROWS = 1 << 17  # combinations that are gathered before they are joined with the next input
_POSITION, _ROW = "#position", "#row"

Columns = dict[str, AnyArray]


@dataclass(frozen=True)
class Combined:
    """Combinations of rows of some inputs: their common hash and key, the time of each input, and columns by name.

    Invariant: sorted by hash; all columns have the same length. Keys have no nulls.
    """

    hashes: Words
    keys: tuple[AnyArray, ...]
    times: dict[int, Times]
    columns: Columns

    def __len__(self) -> int:
        return len(self.hashes)

    def blocks(self) -> Iterator[Combined]:
        """Yield the combinations in blocks that fit the cache, without a copy."""
        return (self._slice(start, start + _BLOCK) for start in range(0, len(self), _BLOCK))

    def _slice(self, start: int, stop: int) -> Combined:
        """Return a range of the combinations without a copy."""
        columns = {name: column[start:stop] for name, column in self.columns.items()}
        times = {port: times[start:stop] for port, times in self.times.items()}
        return Combined(self.hashes[start:stop], tuple(key[start:stop] for key in self.keys), times, columns)

    def take(self, rows: Indices) -> Combined:
        """Return the combinations at these positions."""
        indices = row_numbers(rows)
        columns = {name: column.take(indices) for name, column in self.columns.items()}
        times = {port: times[rows] for port, times in self.times.items()}
        return Combined(self.hashes[rows], tuple(key.take(indices) for key in self.keys), times, columns)


def single(port: Port, piece: StateRows, names: Iterable[str]) -> Combined:
    """Return the rows of one input as combinations, with the columns `names`."""
    columns = {name: port.column(piece, name) for name in names}
    return Combined(piece.hashes, port.key_columns(piece), {port.number: piece.times}, columns)


@dataclass(frozen=True)
class Matches:
    """Pairs of a combination, by its position in a block, and a row of a piece of the next input. Invariant: the
    positions are ascending."""

    block: Combined
    positions: Indices
    port: Port
    piece: StateRows
    rows: Indices

    def with_same_keys(self) -> Matches:
        """Return the pairs with equal keys, because an equal hash is only a candidate."""
        same = same_keys(self.block.keys, self.positions, self.port.key_columns(self.piece), self.rows)
        return self if same.all() else replace(self, positions=self.positions[same], rows=self.rows[same])

    def where(self, condition: Expr) -> Matches:
        """Return the pairs for which a condition holds."""
        if not len(self.rows):
            return self
        columns: dict[str, AnyArray] = {_POSITION: pa.array(self.positions), _ROW: pa.array(self.rows)}
        columns |= {name: self._column(name) for name in columns_of(condition)}
        kept = keep(pa.table(columns), condition)
        return replace(self, positions=kept.column(_POSITION).to_numpy(), rows=kept.column(_ROW).to_numpy())

    def _column(self, name: str) -> AnyArray:
        """Return a column of either side, with one row per pair."""
        known = self.block.columns.get(name)
        if known is None:
            return self.port.column(self.piece, name, self.rows)
        return known.take(self.positions)

    def columns(self) -> Columns:
        """Return all columns of both sides, with one row per pair."""
        return {name: self._column(name) for name in (*self.block.columns, *self.port.values)}

    def combined(self) -> Combined:
        """Return the pairs as combinations that include the next input."""
        positions = row_numbers(self.positions)
        keys = tuple(key.take(positions) for key in self.block.keys)
        times = {port: times[self.positions] for port, times in self.block.times.items()}
        times[self.port.number] = self.piece.times[self.rows]
        return Combined(self.block.hashes[self.positions], keys, times, self.columns())


@dataclass(frozen=True)
class Matcher:
    """The join predicate: equal keys, times within the bands, and the condition."""

    ports: tuple[Port, ...]
    leads: Leads
    condition: Expr | None

    def combinations(self, start: int, piece: StateRows, others: Sequence[Sequence[StateRows]]) -> Iterator[Matches]:
        """Yield all combinations of a row of `piece`, which belongs to input `start`, with one row of each other input
        from the pieces `others[input]`; in blocks, as matches with the last input."""
        first, *between, last = [self.ports[n] for n in self._order(start)]
        blocks: Iterable[Combined] = single(first, piece, first.values).blocks()
        for port in between:
            extended = self._extended(blocks, port, others[port.number])
            blocks = map(_together, gathered(extended, _ROWS, len))
        return self._matches(blocks, last, others[last.number])

    def _order(self, start: int) -> list[int]:
        """Return the order in which inputs are joined: `start`, then those with the narrowest bands, which leave the
        fewest combinations."""
        widths = {j: (there, self.leads[j][start]) for j, there in enumerate(self.leads[start]) if j != start}
        bounded = {j: there + back for j, (there, back) in widths.items() if there is not None and back is not None}
        return [start, *sorted(widths, key=lambda j: (j not in bounded, bounded.get(j, 0), j))]

    def _extended(self, blocks: Iterable[Combined], port: Port, pieces: Sequence[StateRows]) -> Iterator[Combined]:
        """Yield the combinations extended with rows of another input."""
        return (found.combined() for found in self._matches(blocks, port, pieces))

    def _matches(self, blocks: Iterable[Combined], port: Port, pieces: Sequence[StateRows]) -> Iterator[Matches]:
        """Yield the verified pairs of each block with each piece."""
        for block in blocks:
            wanted = self._probes(block, port)
            for piece in pieces:
                for positions, rows in candidates(piece, wanted).pairs():
                    yield self._verified(Matches(block, positions, port, piece, rows))

    def have_partner(self, port: int, piece: StateRows, others: Iterable[StateRows]) -> Flags:
        """Return flags of the rows of a piece that have a partner in a piece of the other of two inputs."""
        block, other = single(self.ports[port], piece, self._condition_columns(port)), self.ports[1 - port]
        found, wanted = np.zeros(len(piece), dtype=np.bool_), self._probes(block, other)
        for candidate in others:
            self._find(block, wanted, other, candidate, found)
            wanted = wanted.at(~found[wanted.positions])
        return found

    def touched(self, port: int, piece: StateRows, target: StateRows) -> Iterator[Indices]:
        """Yield the rows of `target` that may have a partner in `piece`, which belongs to the other input, each once,
        in blocks."""
        found = candidates(target, self._probes(single(self.ports[port], piece, ()), self.ports[1 - port]))
        first = found.first.copy()  # probes are in order of hash and time, so both ends of the ranges are ascending
        first[1:] = np.maximum(first[1:], found.end[:-1])
        for _, rows in CandidateRanges(found.positions, first, found.end).pairs():
            yield rows

    def _probes(self, block: Combined, port: Port) -> Probes:
        """Return the hashes and time intervals of the combinations' partners among the rows of another input."""
        to = port.number
        bands = [(times, self.leads[to][b], self.leads[b][to]) for b, times in block.times.items()]
        return probes(block.hashes, bands)

    def _find(self, block: Combined, wanted: Probes, port: Port, piece: StateRows, found: Flags) -> None:
        """Set the flag of each position that has a partner in the piece. Tests few candidates per position first, then
        four times as many each time, because for most positions the first candidate is a partner."""
        left, width = candidates(piece, wanted), 1
        while len(left):
            stop = np.minimum(left.first + width, left.end)
            for positions, rows in replace(left, end=stop).pairs():
                found[self._verified(Matches(block, positions, port, piece, rows)).positions] = True
            left = replace(left, first=stop).at(np.flatnonzero((stop < left.end) & ~found[left.positions]))
            width *= 4

    def _verified(self, found: Matches) -> Matches:
        """Return the pairs with equal keys that satisfy the condition. The condition is tested only when all inputs are
        joined."""
        found = found.with_same_keys()
        complete = len(found.block.times) + 1 == len(self.ports)
        return found if self.condition is None or not complete else found.where(self.condition)

    def _condition_columns(self, port: int) -> tuple[str, ...]:
        """Return the columns of a port that the condition reads."""
        used = set() if self.condition is None else set(columns_of(self.condition))
        return tuple(name for name in self.ports[port].values if name in used)


def _together(blocks: Sequence[Combined]) -> Combined:
    """Concatenate blocks and sort them by hash."""
    if len(blocks) == 1:
        return blocks[0]
    keys = tuple(pa.concat_arrays(parts) for parts in zip(*(b.keys for b in blocks), strict=True))
    times = {port: np.concatenate([b.times[port] for b in blocks]) for port in blocks[0].times}
    columns = {name: pa.concat_arrays([b.columns[name] for b in blocks]) for name in blocks[0].columns}
    whole = Combined(np.concatenate([b.hashes for b in blocks]), keys, times, columns)
    return whole.take(np.argsort(whole.hashes, kind="stable"))


def same_keys(left: Sequence[AnyArray], left_rows: Indices, right: Sequence[AnyArray], right_rows: Indices) -> Flags:
    """Return, for each pair of rows, whether their keys are equal. Keys have no nulls; all NaNs are equal, and so are
    both zeros."""
    same = np.ones(len(left_rows), dtype=np.bool_)
    for one, other in zip(left, right, strict=True):
        same &= _same(one, left_rows, other, right_rows)
    return same


def _same(left: AnyArray, left_rows: Indices, right: AnyArray, right_rows: Indices) -> Flags:
    """Return, for each pair of rows, whether their values of one key column are equal."""
    words, other_words = _view(left), _view(right)
    if words is None or other_words is None:
        return _same_values(left.take(left_rows), right.take(right_rows))
    values, others = words[left_rows], other_words[right_rows]
    same: Flags = values == others
    if values.dtype.kind == "f":
        same |= (values != values) & (others != others)
    return same


def _view(array: AnyArray) -> npt.NDArray[np.generic] | None:
    """Return numbers and times as an array without a copy; None for other types."""
    t = pa.types
    if t.is_timestamp(array.type):
        array = array.view(pa.int64())
    elif t.is_date32(array.type):
        array = array.view(pa.int32())
    if not (t.is_integer(array.type) or t.is_float32(array.type) or t.is_float64(array.type)):
        return None
    return np.asarray(array.to_numpy())


def _same_values(left: AnyArray, right: AnyArray) -> Flags:
    """Return whether values of equal position are equal, with or without dictionary encoding."""
    if pa.types.is_dictionary(left.type):
        left = left.cast(left.type.value_type)
    if pa.types.is_dictionary(right.type):
        right = right.cast(right.type.value_type)
    return np.asarray(pc.equal(left, right).to_numpy(zero_copy_only=False), dtype=np.bool_)
