"""Paths as users write them. The only place that distinguishes a file system path from a URL."""

from __future__ import annotations

import re
from urllib.parse import unquote

from penstock.errors import ConfigError, PenstockError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(/[^/]*)?(.*)", re.DOTALL)  # `Path` reduces two slashes to one
_HERE = ("", "localhost")


def local_path(text: str, what: str, error: type[PenstockError] = ConfigError) -> str:
    """Return a file system path, also if it is written as file:///... Raises `error` for any other URL: taken as a path
    it would name a folder of this machine, which is never intended. `what` describes the location in the message, as in
    "a files sink"."""
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
