"""Which files a pattern names, in natural order (part-2 before part-10), each with the identity it had when listed.

A file counts as the same file while its path, size and modification time are the same.
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.errors import SourceError

_UNFINISHED = (".tmp", ".inprogress", ".crc")
_BYTES = "bytes:"  # begins the name of a file whose path is not UTF-8; a path begins with a slash
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class FileId:
    """A file as it was when it was listed."""

    path: str
    size: int
    mtime_ns: int

    @property
    def name(self) -> str:
        """The path as text that can be written anywhere; `path_of` gives the path back."""
        try:
            self.path.encode()
        except UnicodeEncodeError:
            return f"{_BYTES}{os.fsencode(self.path).hex()}"
        return self.path

    def check(self) -> None:
        """Raise unless the file is still the one that was listed."""
        try:
            now = identify(self.path)
        except OSError as error:
            raise vanished(self.path) from error
        if now != self:
            raise changed(self.path)


def path_of(name: str) -> str:
    """The path of a file by its `FileId.name`."""
    return os.fsdecode(bytes.fromhex(name.removeprefix(_BYTES))) if name.startswith(_BYTES) else name


def arrow_file(path: str) -> str | pa.NativeFile:
    """A file as Arrow opens it: by its path, which has to be UTF-8, or else as a file that is open."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return pa.PythonFile(open(path, "rb"))
    return path


def open_arrow(path: str) -> pa.NativeFile:
    """A binary file, open."""
    file = arrow_file(path)
    return pa.OSFile(file) if isinstance(file, str) else file


def identify(path: str) -> FileId:
    found = os.stat(path)
    return FileId(path, found.st_size, found.st_mtime_ns)


def vanished(path: str) -> SourceError:
    return SourceError(
        f"the file `{path}` has vanished while it was being read",
        hint="keep a file in place until it is read to its end",
    )


def changed(path: str) -> SourceError:
    return SourceError(
        f"the file `{path}` has changed after it was read, in whole or in part",
        hint="write a file under another name (ending in .tmp) and rename it when it is complete; never append to it",
    )


def list_files(patterns: tuple[str, ...]) -> tuple[FileId, ...]:
    """The files of all patterns, each once."""
    try:
        found = {file for pattern in patterns for file in _matching(pattern)}
    except OSError as error:
        raise SourceError(
            f"cannot list `{', '.join(patterns)}`",
            detail=str(error),
            hint="check that the path exists and may be read",
        ) from error
    return tuple(sorted(found, key=lambda file: natural_key(file.path)))


def natural_key(path: str) -> tuple[tuple[int | str, ...], str]:
    """Orders numbers inside names by value; the path itself breaks ties such as `1` and `01`."""
    parts = _DIGITS.split(path)  # text and digits take turns, so equal places compare as equal kinds
    return tuple(part if i % 2 == 0 else int(part) for i, part in enumerate(parts)), path


def would_match(pattern: str, path: str) -> bool:
    """Whether a file of this path, in which links are resolved, would be listed if there was one."""
    parts = Path(os.path.abspath(pattern)).parts
    plain = next((n for n, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    resolved = Path(os.path.realpath(Path(*parts[:plain]))).parts
    return _leads_to((*resolved, *parts[plain:]), Path(path).parts)


def _leads_to(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """A folder that matches is read with all that is in it."""
    match pattern, path:
        case (), _:
            return not any(_ignored(name) for name in path)
        case ("**", *rest), _:
            return _leads_to(rest, path) or (bool(path) and not _ignored(path[0]) and _leads_to(pattern, path[1:]))
        case (one, *rest), (name, *inside):
            return fnmatch.fnmatchcase(name, one) and (one == name or not _ignored(name)) and _leads_to(rest, inside)
    return False


def _matching(pattern: str) -> Iterator[FileId]:
    if not os.path.isdir(pattern) and (os.path.exists(pattern) or not glob.has_magic(pattern)):
        yield identify(os.path.abspath(pattern))  # named outright: whatever it is called, and an error if it is gone
        return
    for path in _walk(pattern) if os.path.isdir(pattern) else _glob(pattern):
        with contextlib.suppress(FileNotFoundError):  # deleted since it was listed
            yield identify(os.path.abspath(path))


def _glob(pattern: str) -> Iterator[str]:
    named = set(pattern.split(os.sep))
    for found in glob.iglob(pattern, recursive=True):
        if not any(_ignored(name) for name in found.split(os.sep) if name not in named):
            yield from _walk(found) if os.path.isdir(found) else (found,)


def _walk(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if _ignored(entry.name):
                continue
            if entry.is_dir():
                yield from _walk(entry.path)
            elif entry.is_file():
                yield entry.path


def _ignored(name: str) -> bool:
    return name.startswith((".", "_")) or name.endswith(_UNFINISHED)
