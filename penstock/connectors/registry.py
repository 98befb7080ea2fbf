"""Connectors by name: those of Penstock, and those that users register.

A factory is a frozen dataclass, or a function, whose keywords are the options of the connector. SQL gives options as
text; each is parsed by the type of its keyword: `int`, `float`, `bool`, `str`, or a `Literal`. `readers` parse those
whose text means something else, such as a span.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from penstock.connectors.source import SourceConnector
from penstock.errors import ConfigError, did_you_mean
from penstock.option_text import OptionReader, number, read_options, whole_number
from penstock.plan.logical import Connector
from penstock.settings import yes_or_no

_Made = TypeVar("_Made", bound=Connector)


@dataclass(frozen=True)
class ConnectorEntry(Generic[_Made]):
    """A connector with a name. `readers` parse options whose text is not read by its type; `defaults` are options that
    the factory demands and SQL may leave out; `hidden` keywords of the factory are no options."""

    name: str
    factory: Callable[..., _Made]
    readers: Mapping[str, OptionReader] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    hidden: Sequence[str] = ()

    @property
    def options(self) -> dict[str, OptionReader]:
        """Return the reader of each option."""
        hints = _hints(self.factory)
        names = [name for name in inspect.signature(self.factory).parameters if name not in self.hidden]
        return {name: _reader_of(hints.get(name, str)) for name in names} | dict(self.readers)

    def build(self, options: Mapping[str, Any], what: str, others: Sequence[str] = ()) -> _Made:
        """Return the connector for options that are parsed. `others` are suggested for misspelt names, too."""
        given, known = {**self.defaults, **options}, self.options
        parameters = inspect.signature(self.factory).parameters.values()
        for name in options:
            if name not in known:
                hint = did_you_mean(name, [*known, *others])
                raise ConfigError(f"a {self.name} {what} has no option `{name}`", hint=hint)
        for name in (p.name for p in parameters if p.default is p.empty and p.name not in given):
            raise ConfigError(
                f"a {self.name} {what} needs the option `{name}`",
                detail=f"its options are {', '.join(known)}",
                hint=f"add {name} = ...",
            )
        return self.factory(**given)


class Registry(Generic[_Made]):
    """The connectors of one kind by name. `what` is the kind, a source or a sink, and `has` the names that each must
    have."""

    def __init__(self, what: str, has: Sequence[str]) -> None:
        self._what, self._has = what, tuple(has)
        self._known: dict[str, ConnectorEntry[_Made]] = {}
        self._own: set[str] = set()

    def add(self, entry: ConnectorEntry[_Made]) -> None:
        """Add a connector of Penstock, whose name no user can take."""
        self._known[entry.name] = entry
        self._own.add(entry.name)

    def register(self, name: str, factory: Callable[..., _Made]) -> None:
        """Register a user's connector; the last one of a name counts."""
        if not isinstance(name, str) or not name.isidentifier() or name != name.lower() or name in self._own:
            raise ConfigError(
                f"`{name}` cannot be the name of a {self._what}",
                detail="Penstock has one of this name" if name in self._own else "SQL writes it as connector = 'name'",
                hint="choose another name" if name in self._own else "use small letters, digits and _",
            )
        if not callable(factory):
            raise ConfigError(
                f"`{factory!r}` makes no {self._what}",
                detail="a factory is called with the options and returns the connector",
                hint=f"pass a class or a function, as in register_{self._what}('{name}', {type(factory).__name__})",
            )
        self._known[name] = ConnectorEntry(name, factory)

    def parse(self, name: str, options: Mapping[str, str], others: Sequence[str]) -> _Made:
        """Return the connector of a name for options given as text. `others` are options that are parsed elsewhere."""
        entry = self._entry(name)
        read = read_options(options, entry.options, f"a {entry.name} {self._what}", others)
        return self._checked(entry.build(read, self._what), name)

    def build(self, name: str, options: Mapping[str, Any]) -> _Made:
        """Return the connector of a name for options that are values of Python."""
        return self._checked(self._entry(name).build(options, self._what), name)

    def _entry(self, name: str) -> ConnectorEntry[_Made]:
        entry = self._known.get(name.lower())
        if entry is None:
            what = f"unknown connector `{name}` of a {self._what}"
            raise ConfigError(what, hint=did_you_mean(name, list(self._known)))
        return entry

    def _checked(self, made: _Made, name: str) -> _Made:
        """Return a connector unless it lacks a part of its protocol."""
        lacking = [part for part in self._has if not hasattr(made, part)]
        if lacking:
            raise ConfigError(
                f"the connector `{name}` is not a {self._what}",
                detail=f"{type(made).__name__} lacks {', '.join(lacking)}",
                hint=f"its factory must return a {self._what.capitalize()}Connector",
            )
        return made


sources: Registry[SourceConnector] = Registry("source", ("kind", "identity", "bounded", "discover", "open"))
sinks: Registry[Connector] = Registry(
    "sink", ("kind", "identity", "extension", "compression", "staging", "check", "prepare", "newest", "publish")
)


def _hints(factory: Callable[..., object]) -> dict[str, Any]:
    """Return the types of the keywords of a class or a function."""
    if not isinstance(factory, type):
        return get_type_hints(factory)
    return {**get_type_hints(factory), **get_type_hints(inspect.getattr_static(factory, "__init__"))}


def _reader_of(hint: Any) -> OptionReader:
    """Return the reader for the type of a keyword; text for a type that has none."""
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    readers: dict[Any, OptionReader] = {bool: yes_or_no, int: whole_number, float: number}
    if any(get_origin(kind) is Literal for kind in kinds):
        return str.lower
    return next((readers[kind] for kind in kinds if kind in readers), str)
