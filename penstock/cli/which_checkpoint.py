"""Find the checkpoint that a user names: its folder, its name below .penstock, a folder of checkpoints, or a script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.checkpoint.lock import LOCK_FILE, in_use
from penstock.errors import ConfigError, did_you_mean
from penstock.paths import local_path

DEFAULT_CHECKPOINTS = Path(".penstock")  # where `penstock run` creates them
_LISTED = 5
_HOW = "name the folder of a checkpoint, as `penstock run` prints it at its end"


def running_checkpoint(text: str) -> Path:
    """Return the checkpoint that `text` names; exactly one of its candidates must be in use by a run."""
    found = _meant(text)
    running = [path for path in found if in_use(path)]
    match running, found:
        case [one], _:
            return one
        case [], []:
            raise _no_checkpoint(text)
        case [], _:
            raise _not_running(text, found)
    raise ConfigError(
        f"`{text}` holds several running queries", detail=_listed(running), hint="name the checkpoint of one of them"
    )


def _meant(text: str) -> list[Path]:
    """Return the checkpoints that `text` may name."""
    path = Path(local_path(text, "a checkpoint")).expanduser()
    for folder in (path, DEFAULT_CHECKPOINTS / text):
        if _is_checkpoint(folder):
            return [folder]
    if path.suffix.lower() == ".sql":
        return [one for one in _below(DEFAULT_CHECKPOINTS) if one.name.startswith(f"{path.stem}-")]
    return _below(path)


def _is_checkpoint(path: Path) -> bool:
    return (path / "manifests").is_dir() and (path / LOCK_FILE).is_file()


def _below(folder: Path) -> list[Path]:
    """Return the checkpoints directly inside a folder, in order of their names."""
    return [one for one in sorted(folder.iterdir()) if _is_checkpoint(one)] if folder.is_dir() else []


def _listed(paths: Sequence[Path]) -> str:
    more = [f"and {len(paths) - _LISTED} more"] if len(paths) > _LISTED else []
    return ", ".join([*map(str, paths[:_LISTED]), *more])


def _no_checkpoint(text: str) -> ConfigError:
    path = Path(text)
    detail = "it holds no manifests" if path.is_dir() else "there is no such folder"
    known = {str(one) for folder in (path.parent, DEFAULT_CHECKPOINTS) for one in _below(folder)}
    return ConfigError(
        f"`{text}` is not a checkpoint", detail=detail, hint=did_you_mean(text, sorted(known)) if known else _HOW
    )


def _not_running(text: str, found: Sequence[Path]) -> ConfigError:
    return ConfigError(
        "no run is using this checkpoint" if len(found) == 1 else f"no run is using a checkpoint of `{text}`",
        detail=_listed(found),
        hint="start the query first; `penstock run --sites N` sets its number of sites",
    )
