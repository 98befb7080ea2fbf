"""The files that a manifest names. Only they are read out of it: a directory of ten thousand groups is passed over."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.checkpoint import manifest as manifests


@dataclass(frozen=True)
class _File:
    name: str


@dataclass(frozen=True)
class _Slice:
    run: _File


@dataclass(frozen=True)
class _Site:
    slices: tuple[_Slice, ...]
    pending: tuple[_Slice, ...] = ()
    held: tuple[_Slice, ...] = ()


@dataclass(frozen=True)
class _Subquery:
    sites: tuple[_Site, ...]


@dataclass(frozen=True)
class _Names:
    subqueries: tuple[_Subquery, ...]
    staged: tuple[_File, ...]


def names_in(folder: Path, epoch: int) -> set[str]:
    """The runs and the staged files of an epoch, as its manifest on disk has them."""
    found = manifests.read_as(folder, epoch, _Names)
    sites = [site for subquery in found.subqueries for site in subquery.sites]
    slices = [piece for site in sites for piece in (*site.slices, *site.pending, *site.held)]
    return {piece.run.name for piece in slices} | {file.name for file in found.staged}
