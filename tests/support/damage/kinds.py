"""Kinds of damage to a file or a folder. Each takes a path and the files of the same kind, and changes what is
there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

Damage = Callable[[Path, Sequence[Path], Random], None]
_BLOCK = 64


class NotApplicable(Exception):
    """There is nothing that this damage could be applied to."""


def _cut(length: Callable[[int], int]) -> Damage:
    def cut(path: Path, others: Sequence[Path], random: Random) -> None:
        os.truncate(path, max(0, length(path.stat().st_size)))

    return cut


def _zeroed(path: Path, others: Sequence[Path], random: Random) -> None:
    data = bytearray(path.read_bytes())
    at = random.randrange(max(1, len(data)))
    data[at : at + _BLOCK] = bytes(len(data[at : at + _BLOCK]))
    _overwrite(path, data)


def _flipped(path: Path, others: Sequence[Path], random: Random) -> None:
    data = bytearray(path.read_bytes())
    if not data:
        raise NotApplicable
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    _overwrite(path, data)


def _random_bytes(path: Path, others: Sequence[Path], random: Random) -> None:
    _overwrite(path, random.randbytes(path.stat().st_size or 100))


def _overwrite(path: Path, data: bytes | bytearray) -> None:
    """Write in place, so that readers with the file open see the change."""
    with path.open("r+b") as file:
        file.write(data)


def _appended(path: Path, others: Sequence[Path], random: Random) -> None:
    with path.open("ab") as file:
        file.write(random.randbytes(random.choice([1, 8, 5000])))


def _enormous(path: Path, others: Sequence[Path], random: Random) -> None:
    os.truncate(path, 1 << 36)  # a sparse file: it takes no space


def _swapped(path: Path, others: Sequence[Path], random: Random) -> None:
    """Swap the file with another of its kind."""
    other = random.choice(_besides(path, others))
    aside = path.with_name(".aside")
    path.rename(aside)
    other.rename(path)
    aside.rename(other)


def _older(path: Path, others: Sequence[Path], random: Random) -> None:
    """Replace the content with that of the file before it."""
    shutil.copyfile(_besides(path, others)[-1], path)


def _besides(path: Path, others: Sequence[Path]) -> list[Path]:
    found = [other for other in others if other != path]
    if not found:
        raise NotApplicable
    return found


def _gone(path: Path, others: Sequence[Path] = (), random: Random | None = None) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _instead(make: Callable[[Path], None]) -> Damage:
    def replaced(path: Path, others: Sequence[Path], random: Random) -> None:
        _gone(path)
        make(path)

    return replaced


def _link_to_itself_elsewhere(path: Path, others: Sequence[Path], random: Random) -> None:
    elsewhere = path.with_name(f".elsewhere-{path.name}")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _no_rights(path: Path, others: Sequence[Path], random: Random) -> None:
    if os.geteuid() == 0:
        raise NotApplicable  # permissions do not stop root
    path.chmod(0)


def _emptied(path: Path, others: Sequence[Path], random: Random) -> None:
    for inside in path.iterdir():
        _gone(inside)


REPLACED: dict[str, Damage] = {
    "deleted": _gone,
    "a pipe instead": _instead(os.mkfifo),
    "a link to /dev/null": _instead(lambda path: path.symlink_to("/dev/null")),
    "a link to /dev/zero": _instead(lambda path: path.symlink_to("/dev/zero")),
    "a link to nothing": _instead(lambda path: path.symlink_to(path.with_name("nothing"))),
    "a link to itself": _instead(lambda path: path.symlink_to(path)),
    "a link to where it went": _link_to_itself_elsewhere,
    "no permission": _no_rights,
}
OF_FILES: dict[str, Damage] = {
    "cut to nothing": _cut(lambda size: 0),
    "cut to a half": _cut(lambda size: size // 2),
    "cut by a byte": _cut(lambda size: size - 1),
    "a block of zeros": _zeroed,
    "a flipped bit": _flipped,
    "random bytes": _random_bytes,
    "appended bytes": _appended,
    "enormous": _enormous,
    "swapped with another": _swapped,
    "an older version": _older,
    "a folder instead": _instead(lambda path: path.mkdir()),
    **REPLACED,
}
OF_FOLDERS: dict[str, Damage] = {
    "emptied": _emptied,
    "a file instead": _instead(lambda path: path.touch()),
    **REPLACED,
}
