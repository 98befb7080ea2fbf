"""List the files of a pattern in natural order (part-2 before part-10), each with its identity when listed.

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
_BYTES = "bytes:"  # prefix for paths that are not UTF-8; no path has it, because paths begin with a slash
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class FileId:
    """The identity of a file when it was listed."""

    path: str
    size: int
    mtime_ns: int

    @property
    def name(self) -> str:
        """Return the path as valid UTF-8 text; `path_of` is the inverse."""
        try:
            self.path.encode()
        except UnicodeEncodeError:
            return f"{_BYTES}{os.fsencode(self.path).hex()}"
        return self.path

    def check(self) -> None:
        """Raise unless the file still has this identity."""
        try:
            now = identify(self.path)
        except OSError as error:
            raise vanished(self.path) from error
        if now != self:
            raise changed(self.path)


def path_of(name: str) -> str:
    """Return the path of a file from its `FileId.name`."""
    return os.fsdecode(bytes.fromhex(name.removeprefix(_BYTES))) if name.startswith(_BYTES) else name


def arrow_file(path: str) -> str | pa.NativeFile:
    """Return the path, or an open file if the path is not UTF-8, which Arrow cannot open."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return pa.PythonFile(open(path, "rb"))
    return path


def open_arrow(path: str) -> pa.NativeFile:
    """Open a file for Arrow."""
    file = arrow_file(path)
    return pa.OSFile(file, "r") if isinstance(file, str) else file


def identify(path: str) -> FileId:
    """Return the current identity of a file."""
    found = os.stat(path)
    return FileId(path, found.st_size, found.st_mtime_ns)


def vanished(path: str) -> SourceError:
    """Return the error for a file that is gone before it is read completely."""
    return SourceError(
        f"the file `{path}` was removed while it was being read",
        hint="keep a file in place until it is read to its end",
    )


def changed(path: str) -> SourceError:
    """Return the error for a file that was modified after reading began."""
    return SourceError(
        f"the file `{path}` has changed after it was read, in whole or in part",
        hint="write a file under another name (ending in .tmp) and rename it when it is complete; never append to it",
    )


def list_files(patterns: tuple[str, ...]) -> tuple[FileId, ...]:
    """Return the files of all patterns, each once, in natural order."""
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
    """Return a sort key that orders numbers in names by value; the path breaks ties such as `1` and `01`."""
    parts = _DIGITS.split(path)  # text and digits alternate, so equal indexes have comparable types
    return tuple(part if i % 2 == 0 else int(part) for i, part in enumerate(parts)), path


def would_match(pattern: str, path: str) -> bool:
    """Return whether a file with this path, in which links are resolved, would be listed if it existed."""
    parts = Path(os.path.abspath(pattern)).parts
    plain = next((n for n, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    resolved = Path(os.path.realpath(Path(*parts[:plain]))).parts
    return _leads_to((*resolved, *parts[plain:]), Path(path).parts)


def _leads_to(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Return whether the pattern matches the path or a folder above it; matching folders are read recursively."""
    match pattern, path:
        case (), _:
            return not any(_ignored(name) for name in path)
        case ("**", *rest), _:
            return _leads_to(rest, path) or (bool(path) and not _ignored(path[0]) and _leads_to(pattern, path[1:]))
        case (one, *rest), (name, *inside):
            return fnmatch.fnmatchcase(name, one) and (one == name or not _ignored(name)) and _leads_to(rest, inside)
    return False


def _matching(pattern: str) -> Iterator[FileId]:
    """Yield the files of one pattern: a file, a folder or a glob."""
    if not os.path.isdir(pattern) and (os.path.exists(pattern) or not glob.has_magic(pattern)):
        yield identify(os.path.abspath(pattern))  # an explicit file: no name is ignored, and a missing one is an error
        return
    for path in _walk(pattern) if os.path.isdir(pattern) else _glob(pattern):
        with contextlib.suppress(FileNotFoundError):  # deleted since it was listed
            yield identify(os.path.abspath(path))


def _glob(pattern: str) -> Iterator[str]:
    """Yield the files of a glob and those in the folders that it matches; ignored names count if the pattern spells
    them."""
    named = set(pattern.split(os.sep))
    for found in glob.iglob(pattern, recursive=True):
        if not any(_ignored(name) for name in found.split(os.sep) if name not in named):
            yield from _walk(found) if os.path.isdir(found) else (found,)


def _walk(folder: str) -> Iterator[str]:
    """Yield the files in a folder and its subfolders."""
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
