"""Settings as they are declared: fields of a msgspec struct, with their limits and one line of documentation each."""

from __future__ import annotations

import types
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from penstock.errors import ConfigError

BYTES = "bytes"  # in the `extra` of a type's limits: its values are sizes


@dataclass(frozen=True)
class Setting:
    """A setting: its name for users, the field that holds it, the type with its limits, the default and a line of
    documentation."""

    name: str
    field: str
    type: Any
    default: Any
    doc: str

    @property
    def kind(self) -> Any:
        """Return the plain type of values other than None: int, float, str or a Literal."""
        return _without_limits(_value_type(self.type))

    @property
    def optional(self) -> bool:
        """Return whether None is a value."""
        return self.default is None

    @property
    def is_size(self) -> bool:
        """Return whether the values are sizes in bytes, which users may write with a unit."""
        return any(BYTES in (meta.extra or {}) for meta in _metas(_value_type(self.type)))

    @property
    def wanted(self) -> str:
        """Return which values the setting takes, for messages."""
        if get_origin(self.kind) is Literal:
            *others, last = (repr(value) for value in get_args(self.kind))
            return f"{', '.join(others)} or {last}"
        if self.kind is str:
            return "a text"
        least, most = _limits(_value_type(self.type))
        if self.kind is float:
            return f'a span from {"1us" if least else "0s"} to {most / 3600:g}h, as in "2s"'
        if self.is_size:
            return f'a size from {least} to {most} bytes, as in "2GB"'
        return f"a whole number from {least} to {most}"

    def check(self, value: object) -> None:
        """Raise ConfigError if the setting cannot have this value."""
        try:
            msgspec.convert(value, self.type)
        except msgspec.ValidationError as error:
            what = f"the setting `{self.name}` cannot be {value!r}"
            raise ConfigError(what, hint=f"give it {self.wanted}") from error


@cache
def declared(struct: type[msgspec.Struct]) -> tuple[Setting, ...]:
    """Return the settings that a struct declares, in order."""
    fields = msgspec.structs.fields(struct)
    return tuple(Setting(f.encode_name, f.name, f.type, f.default, _description(f.type)) for f in fields)


def _value_type(type_: Any) -> Any:
    """Return the type of values other than None, with its limits."""
    plain = _without_limits(type_)
    if get_origin(plain) in (Union, types.UnionType):
        return next(kind for kind in get_args(plain) if kind is not type(None))
    return type_


def _without_limits(type_: Any) -> Any:
    return get_args(type_)[0] if get_origin(type_) is Annotated else type_


def _metas(type_: Any) -> list[msgspec.Meta]:
    return [meta for meta in getattr(type_, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]


def _limits(type_: Any) -> tuple[float, float]:
    """Return the least and the greatest value of a number."""
    return next((meta.ge, meta.le) for meta in _metas(type_) if meta.ge is not None and meta.le is not None)


def _description(type_: Any) -> str:
    return next(meta.description for meta in _metas(type_) if meta.description)
