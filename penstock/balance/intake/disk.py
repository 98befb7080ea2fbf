"""Back-pressure by disk space: how many rows an epoch takes in while the checkpoint is about to fill its disk. Pure.

A checkpoint may take `limit` bytes, and no more than its file system has. An epoch that would take more is not
committed; it is planned again with fewer rows. To make that rare, an epoch takes in fewer rows the less space is left:
from 80 % of the limit on, and where two epochs of the usual size would not fit, since what an epoch writes may be
merged in the next one while both copies exist. A file system needs no other reserve: whatever its size, what matters is
how much of it an epoch takes.

Rows that wait at sites are written once more when they are worked on, while their first file still exists. So the space
for that counts as taken when they are taken in.

Rows can also free space, because they close windows. So an epoch with a single row is tried before none is, and after a
few epochs without any row it is tried again: only if these have freed nothing, had no waiting rows to work on, and it
still does not fit, the query cannot go on. It takes these epochs until files that are no longer needed are deleted,
since older manifests name them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FREE_PART = 0.8  # of the limit: below it there is no back-pressure
EPOCHS_AHEAD = 2  # there should be space for so many epochs of the usual size
RELIEF = 1.25  # back-pressure ends with so many times the space with which it begins
SHRINKING = 8  # an epoch that did not fit is planned again with one in so many of its rows
EPOCHS_WITHOUT_ROWS = 4  # after which all files are deleted that were no longer needed before them
PLENTY = 2**62  # bytes


@dataclass(frozen=True)
class DiskBudget:
    """The bytes that a checkpoint takes (`used`), may take (`limit`, None: no limit), and that its file system has
    left (`free`). Rows that wait at sites take `due` of the used bytes, and will take as much again. An epoch writes
    about `per_row` bytes for each row that it asks for (0: unknown).

    `most_rows` bounds the next epoch after one did not fit (None: no bound). Invariant: while it is 0, the checkpoint
    took `lowest` bytes when the last epoch with rows did not fit, and `dry` epochs were committed since that had
    neither rows nor waiting rows to work on.
    """

    limit: int | None = None
    used: int = 0
    free: int = PLENTY
    due: int = 0
    per_row: float = 0.0
    most_rows: int | None = None
    lowest: int = 0
    dry: int = 0
    pressed: bool = False  # whether back-pressure has begun and not ended

    @property
    def left(self) -> int:
        """Return the bytes that the checkpoint may still take, beyond what waiting rows will."""
        return max(0, min(self.free - self.due, self._left_of_limit))

    @property
    def _left_of_limit(self) -> int:
        return PLENTY if self.limit is None else max(0, self.limit - self.used - self.due)

    @property
    def first_bytes(self) -> int:
        """Return the bytes of rows that an epoch may take in while it is unknown how much is written for a row."""
        return PLENTY if self.per_row else self.left // EPOCHS_AHEAD

    @property
    def merge_bytes(self) -> int | None:
        """Return the bytes that an epoch may write if it merges runs, which exist twice until the old ones are deleted;
        None: no bound. There is none while there is room for all state, twice. Half is left for rows that arrive."""
        if self.left > EPOCHS_AHEAD * self.used:
            return None
        return self.left if self.holds_all else self.left // EPOCHS_AHEAD

    @property
    def holds_all(self) -> bool:
        """Return whether the next epoch takes in no rows."""
        return self.most_rows == 0

    def admitted(self, rows: int, on_the_way: int = 0) -> int:
        """Return how many of `rows` rows the next epoch may ask for, if one that asked for `on_the_way` rows is still
        running."""
        ahead = replace(self, used=self.used + (taken := round(self.per_row * on_the_way)), free=self.free - taken)
        slowed = max(1, int(rows * min(1.0, ahead.spare(rows))))
        return slowed if self.most_rows is None else min(slowed, self.most_rows)

    def spare(self, rows: int) -> float:
        """Return the space that is left as a fraction of what it should be for epochs of `rows` rows; back-pressure
        takes effect below 1."""
        epochs = EPOCHS_AHEAD * self.per_row * rows
        of_limit = max(epochs, (1 - FREE_PART) * self.limit) if self.limit is not None else epochs
        return min(self._left_of_limit / max(1.0, of_limit), max(0, self.free - self.due) / max(1.0, epochs))

    def written(self, size: int, asked: int, given: int) -> DiskBudget:
        """Return the budget after an epoch that asked for `asked` rows, was given `given` and wrote `size` bytes. An
        epoch that was given much less than it asked for says nothing about full ones."""
        if given < max(1, asked // 2):
            return self
        return replace(self, per_row=size / min(asked, given))

    def committed(self, used: int, free: int, rows: int, due: int = 0) -> DiskBudget:
        """Return the budget after an epoch was committed; one without back-pressure may ask for `rows` rows."""
        now = replace(self, used=used, free=free, due=due)
        now = replace(now, pressed=now.spare(rows) < (RELIEF if self.pressed else 1.0))
        if not self.holds_all:
            return replace(now, most_rows=None, dry=0)
        if used < self.lowest:
            return replace(now, most_rows=1, dry=0)
        if due < self.due:
            return now
        dry = self.dry + 1
        return replace(now, most_rows=int(dry >= EPOCHS_WITHOUT_ROWS), dry=dry)

    def refused(self, asked: int, given: int) -> DiskBudget | None:
        """Return the budget after an epoch that asked for `asked` rows and was given `given` did not fit; None if the
        query cannot go on. Sources that gave far more than they were asked for do not give less."""
        if asked > 1 and given <= EPOCHS_AHEAD * asked:
            return replace(self, most_rows=max(1, asked // SHRINKING), pressed=True)
        if asked == 0 or self.dry:
            return None
        return replace(self, most_rows=0, lowest=self.used, pressed=True)

    def again(self) -> DiskBudget:
        """Return the budget to try again with, after the query could not go on: with the fewest rows, at once."""
        return replace(self, most_rows=1, dry=max(1, self.dry))
