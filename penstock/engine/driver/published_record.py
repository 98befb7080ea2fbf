"""Compare the record of an output with the manifest that a run continues from. Pure.

The manifest knows an epoch up to which all rows have certainly been published; the record may know a newer one, but
none newer than the manifest itself. If the record is older, published rows are lost with their folder; if it is newer,
the checkpoint is an old copy. Files that readers have removed do not matter, for they leave the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.connectors.sinks.sink import Record
from penstock.errors import CheckpointError, CorruptCheckpointError
from penstock.state.model import Manifest

RESULTS, LATE, BAD = "results", "late", "bad"


def rows_of(output: str) -> str:
    """Return the name of an output's rows in messages."""
    return "result rows" if output == RESULTS else f"{output} rows"


@dataclass(frozen=True)
class Found:
    """The state of an output: its record `here`, its record `there` if the query published into the folder `before`,
    and the newest epoch of which files are visible."""

    output: str
    folder: Path
    here: Record | None
    before: Path
    there: Record | None = None
    seen: int = 0

    @property
    def has_record(self) -> bool:
        """Return whether there is a record in either folder."""
        return self.here is not None or self.there is not None


def published_upto(found: Found, manifest: Manifest, accept_missing: bool) -> int:
    """Return the newest epoch that is certainly published; raise an error if going on would lose or repeat rows."""
    _refuse_moved(found, manifest)
    records = [record.epoch for record in (found.here, found.there) if record is not None]
    upto, expected = max(records, default=0), manifest.published.get(found.output, 0)
    if max(upto, found.seen) > manifest.epoch:
        raise _behind(found, max(upto, found.seen), manifest.epoch)
    if upto < expected and not accept_missing:
        raise _missing(found, expected)
    return max(upto, expected)


def _refuse_moved(found: Found, manifest: Manifest) -> None:
    """Raise an error if an output has moved to another folder: results would be divided between two places, and staged
    rows would never be published."""
    there = found.there
    if there is not None and (found.output == RESULTS or there.epoch < manifest.last_with_rows(found.output)):
        raise CheckpointError(
            f"the {rows_of(found.output)} of this query go to another folder",
            detail=f"so far it was {found.before}, and now it is {found.folder}",
            hint="start it in the working folder it was started in before, with the same paths",
        )


def _behind(found: Found, published: int, committed: int) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        "the newest manifests of the checkpoint are missing",
        detail=f"epoch {published} is published in {found.folder}, but the checkpoint ends at epoch {committed}: "
        "going on from here would repeat rows",
        hint="restore the newest checkpoint, or start again with a new checkpoint and a new folder; to go back on "
        "purpose, remove the folder with all that was published after the checkpoint, and start with the setting "
        "on_missing_results = 'accept'",
    )


def _missing(found: Found, expected: int) -> CheckpointError:
    return CheckpointError(
        f"the {rows_of(found.output)} that this query has published are missing",
        detail=f"it has published up to epoch {expected} in {found.folder}, and the record of that is missing: the "
        "folder was removed, emptied, or replaced by an older one",
        hint="restore the folder with all that is in it; or start with the setting on_missing_results = 'accept' to go "
        "on without those rows; or remove the checkpoint, too, to start over, as `penstock run --fresh` does",
    )
