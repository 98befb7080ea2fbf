"""The errors that users can get. Each has three parts: what is wrong, the detail, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST_LISTED = 20  # a hint lists no more names than this


class PenstockError(Exception):
    """Base class of all errors. `what` is one sentence; `detail` and `hint` may be empty."""

    def __init__(self, what: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(printable(what))
        self.what, self.detail, self.hint = map(printable, (what, detail, hint))

    def __str__(self) -> str:
        return in_three_parts(self.what, self.detail, self.hint)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors are sent between processes (a task raises, the driver reports), and the default pickling loses
        # keyword-only arguments.
        return _rebuild, (type(self), self.what, self.detail, self.hint)


def _rebuild(kind: type[PenstockError], what: str, detail: str, hint: str) -> PenstockError:
    return kind(what, detail=detail, hint=hint)


class QueryError(PenstockError):
    """The query cannot be run as written: syntax, an unknown name, a wrong type, an invalid window."""


class ConfigError(PenstockError):
    """A setting has an invalid value."""


class SourceError(PenstockError):
    """A source cannot be opened or read: a missing file, an unreadable format, a schema that does not match."""


class BadRowError(SourceError):
    """A row of the input is malformed, and the run is set to stop at such rows."""


class SinkError(PenstockError):
    """A result cannot be published."""


class CheckpointError(PenstockError):
    """The checkpoint cannot be used: it belongs to another query, is held by another driver, or is on an unsuitable
    file system."""


class CorruptCheckpointError(CheckpointError):
    """A file of the checkpoint is missing or does not match its checksum."""


class StorageError(PenstockError):
    """A file system fails: it is read-only, denies permission, or reports an error."""


class DiskFullError(StorageError):
    """A file system is full, the user's quota is used up, or a checkpoint takes all that the setting `disk` allows."""


class AttemptFailed(PenstockError):
    """One attempt to run an epoch failed, for example because a worker died; another may succeed."""


class LostWorker(AttemptFailed):
    """An attempt to run an epoch failed because a worker died or failed; another may succeed."""

    worker: int | None = None  # its number in the worker pool; None for a worker of a Spark job


class PolicyError(PenstockError):
    """A policy failed, or returned something that is not a decision."""


class EvaluationError(PenstockError):
    """An expression or an aggregate failed on the data: an overflow, an impossible cast."""


def printable(text: str) -> str:
    """Return a text that can be printed and encoded: bytes of a file name that are not UTF-8 are escaped."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class PenstockWarning(UserWarning):
    """A warning about something that is allowed but nearly always a mistake. Has the same three parts as an error."""

    def __init__(self, what: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what, self.detail, self.hint = what, detail, hint

    def __str__(self) -> str:
        return in_three_parts(self.what, self.detail, self.hint)


def in_three_parts(what: str, detail: str, hint: str) -> str:
    """Return message, detail and hint as text, one line each; empty parts are left out."""
    parts = [what]
    if detail:
        parts.append(f"  detail: {detail}")
    if hint:
        parts.append(f"  hint:   {hint}")
    return "\n".join(parts)


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return a hint with the candidate most similar to `name`. If none is similar, list all candidates, or of many the
    nearest three."""
    known = list(candidates)
    folded = {c.lower(): c for c in known}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{folded[close[0]]}`?"
    if len(known) > _MOST_LISTED:
        nearest = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.0)
        return "the nearest are " + ", ".join(f"`{folded[c]}`" for c in nearest)
    return "known: " + ", ".join(f"`{c}`" for c in known) if known else ""
