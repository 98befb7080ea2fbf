"""Paths as users write them: the only place that tells a path of the file system from a URL."""

from __future__ import annotations

import re
from urllib.parse import unquote

from penstock.errors import ConfigError, PenstockError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(/[^/]*)?(.*)", re.DOTALL)  # `Path` makes one slash of two
_HERE = ("", "localhost")


def local_path(text: str, what: str, error: type[PenstockError] = ConfigError) -> str:
    """A path of the file system, also where it is written as file:///... Any other URL is an error: as a path it would
    name a folder of this machine, which nobody means. `what` is at that place, as in "a files sink"."""
    url = _URL.fullmatch(text)
    if url is None:
        return text
    scheme, host, rest = url[1].lower(), (url[2] or "/")[1:], url[3]
    if scheme == "file" and host.lower() in _HERE:
        return unquote(rest if url[2] else f"/{rest}")
    raise error(
        f"{what} cannot be on {scheme}://{host if scheme == 'file' else ''}",
        detail=f"`{text}` is not a path of a file system; object stores and other services are not supported",
        hint="use a folder on a local or POSIX network file system that all hosts see",
    )
