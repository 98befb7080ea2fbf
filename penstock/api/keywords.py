"""Check the keywords of functions that users call, so that a misspelt one is answered with the nearest name."""

from __future__ import annotations

import functools
import inspect
import linecache
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ParamSpec, TypeVar

from penstock.errors import ConfigError, did_you_mean

_P = ParamSpec("_P")
_R = TypeVar("_R")
_PACKAGE = str(Path(__file__).parent.parent)


def checked_keywords(name: str, options: Iterable[str] = ()) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Check the arguments of a function that users call as `name`; `options` are the names its `**options` may hold."""
    extra = tuple(options)

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        parameters = inspect.signature(function).parameters.values()
        by_place = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        named = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        needed = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.default is p.empty]

        @functools.wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if len(args) > len(by_place):
                hint = f"write them with their names, as in {named[len(by_place)]}=..." if named != by_place else ""
                raise argument_error(f"{name} takes {len(by_place)} arguments without a name, not {len(args)}", hint)
            for given in kwargs:
                if given not in named and given not in extra:
                    raise argument_error(f"{name} has no argument `{given}`", did_you_mean(given, [*named, *extra]))
            for wanted in needed:
                if wanted not in kwargs and wanted not in by_place[: len(args)]:
                    raise argument_error(f"{name} needs the argument `{wanted}`", f"write {name}(..., {wanted}=...)")
            return function(*args, **kwargs)

        return checked

    return decorate


def argument_error(what: str, hint: str) -> ConfigError:
    """Return the error for a wrong argument, with the line of the call."""
    return ConfigError(what, detail=user_line(), hint=hint)


def user_line() -> str:
    """Return file, line number and text of the user's line that made the call; empty if there is none."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return ""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return f"{frame.f_code.co_filename}, line {frame.f_lineno}{': ' if line else ''}{line}"
