"""Errors of the user's code, and locations in it: the line that called Penstock, or the line that failed."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from penstock.errors import PenstockError

_PACKAGE = str(Path(__file__).parent)


def caller_depth() -> int:
    """Return how many frames above the caller the nearest code outside the package is, as `warnings.warn` counts
    them."""
    frame: FrameType | None = sys._getframe(1)
    depth = 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, depth = frame.f_back, depth + 1
    return depth


@contextmanager
def raising(kind: type[PenstockError], what: str, hint: str) -> Iterator[None]:
    """Raise errors of the user's code as `kind`, with the line that raised them. Errors of Penstock pass."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        raise kind(what, detail=describe_error(error), hint=hint) from error


def name_of(function: object) -> str:
    """Return the name of a function, or of the class of another callable."""
    return getattr(function, "__qualname__", type(function).__name__)


def describe_error(error: BaseException) -> str:
    """Return an error of the user's code as one line: its type, its message, and the line that raised it."""
    line = failing_line(error)
    return f"{type(error).__name__}: {error}" + (f" ({line})" if line else "")


def failing_line(error: BaseException) -> str:
    """Return the last line outside the package that an error passed, as "file.py, line 3: text"; empty if there is
    none."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_PACKAGE)]
    if not frames:
        return ""
    own = [f for f in frames if f.line and "site-packages" not in f.filename] or frames
    last = own[-1]
    return f"{last.filename}, line {last.lineno}" + (f": {last.line}" if last.line else "")
