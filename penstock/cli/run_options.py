"""The flags of `penstock run` as options of `start`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.api.option_text import read_settings
from penstock.errors import ConfigError


def run_options(settings: Sequence[str], flags: Mapping[str, object]) -> dict[str, Any]:
    """What `--set` and the flags ask for; a flag is stronger than `--set`."""
    given = {name: str(value) for name, value in flags.items() if value is not None}
    return read_settings(dict(map(_pair, settings)) | given)


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"`--set {text}` is not a setting", hint="write it as --set key=value")
    return key.strip(), value.strip()
