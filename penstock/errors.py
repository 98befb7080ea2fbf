"""Every error a user can meet says three things: what is wrong, the detail, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST_LISTED = 20  # names that a hint lists


class PenstockError(Exception):
    """Base of all errors. `what` is one sentence; `detail` and `hint` may be empty."""

    def __init__(self, what: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(printable(what))
        self.what, self.detail, self.hint = map(printable, (what, detail, hint))

    def __str__(self) -> str:
        return in_three_parts(self.what, self.detail, self.hint)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (a task raises, the driver reports), and keyword-only arguments do not survive
        # the default protocol.
        return _rebuild, (type(self), self.what, self.detail, self.hint)


def _rebuild(kind: type[PenstockError], what: str, detail: str, hint: str) -> PenstockError:
    return kind(what, detail=detail, hint=hint)


class QueryError(PenstockError):
    """The query cannot be run as written: syntax, an unknown name, a type that does not fit, a bad window."""


class ConfigError(PenstockError):
    """A setting has a value that cannot be used."""


class SourceError(PenstockError):
    """A source cannot be opened or read: a missing file, an unreadable format, a schema that does not fit."""


class BadRowError(SourceError):
    """A row of the input is malformed and the run is told to stop at such rows."""


class SinkError(PenstockError):
    """A result cannot be published."""


class CheckpointError(PenstockError):
    """The checkpoint cannot be used: of another query, held by another driver, on an unsuitable file system."""


class CorruptCheckpointError(CheckpointError):
    """A file of the checkpoint is missing or does not match its checksum."""


class StorageError(PenstockError):
    """A file system fails: it is read-only, denies permission, or does not do what it is asked."""


class DiskFullError(StorageError):
    """A file system has no room left, or the quota of the user is used up."""


class PolicyError(PenstockError):
    """A policy failed, or decided something that is not a decision."""


class EvaluationError(PenstockError):
    """An expression or an aggregate failed on the data: an overflow, a cast that does not hold."""


def printable(text: str) -> str:
    """A text that can be printed and encoded: what was not UTF-8 in the name of a file is escaped, as in a\\xff.csv."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class PenstockWarning(UserWarning):
    """Something that is allowed, and nearly always a mistake. The same three parts as an error."""

    def __init__(self, what: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what, self.detail, self.hint = what, detail, hint

    def __str__(self) -> str:
        return in_three_parts(self.what, self.detail, self.hint)


def in_three_parts(what: str, detail: str, hint: str) -> str:
    """What is wrong, the detail and what to do about it, a line for each that there is."""
    parts = [what]
    if detail:
        parts.append(f"  detail: {detail}")
    if hint:
        parts.append(f"  hint:   {hint}")
    return "\n".join(parts)


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A hint naming the nearest candidate; where none is near, all of them, or of many the nearest three."""
    known = list(candidates)
    folded = {c.lower(): c for c in known}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{folded[close[0]]}`?"
    if len(known) > _MOST_LISTED:
        nearest = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.0)
        return "the nearest are " + ", ".join(f"`{folded[c]}`" for c in nearest)
    return "known: " + ", ".join(f"`{c}`" for c in known) if known else ""
