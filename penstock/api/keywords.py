"""Keyword arguments of functions that users call: one that is misspelt or missing is an error that says which was
meant, and where in the user's code it stands."""

from __future__ import annotations

import functools
import inspect
import linecache
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ParamSpec, TypeVar

from penstock.errors import ConfigError, did_you_mean

P = ParamSpec("P")
R = TypeVar("R")
_PACKAGE = str(Path(__file__).parent.parent)


def checked_keywords(name: str, options: Iterable[str] = ()) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Check the arguments of a function that users know as `name`; `options` are those its `**options` may hold."""
    extra = tuple(options)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(function).parameters.values()
        by_place = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        named = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        needed = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.default is p.empty]

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if len(args) > len(by_place):
                hint = f"write them with their names, as in {named[len(by_place)]}=..." if named != by_place else ""
                raise _error(f"{name} takes {len(by_place)} arguments without a name, not {len(args)}", hint)
            for given in kwargs:
                if given not in named and given not in extra:
                    raise _error(f"{name} has no argument `{given}`", did_you_mean(given, [*named, *extra]))
            for wanted in needed:
                if wanted not in kwargs and wanted not in by_place[: len(args)]:
                    raise _error(f"{name} needs the argument `{wanted}`", f"write {name}(..., {wanted}=...)")
            return function(*args, **kwargs)

        return checked

    return decorate


def _error(what: str, hint: str) -> ConfigError:
    return ConfigError(what, detail=user_line(), hint=hint)


def user_line() -> str:
    """The place in the user's code that the call comes from, with its line; empty where there is none."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return ""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return f"{frame.f_code.co_filename}, line {frame.f_lineno}{': ' if line else ''}{line}"
