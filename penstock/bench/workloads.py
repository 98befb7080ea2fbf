"""The workloads: what is asked of every system, as values that each system turns into its own query."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ConfigError, did_you_mean

SLACK_SECONDS = 2


@dataclass(frozen=True)
class WindowAggregate:
    """`SELECT k, window_start, count(*) n, sum(v) s` per key and window. Spans are whole seconds; a window is a whole
    number of slides. With `key_modulo`, the key is `k % key_modulo`."""

    stream: str
    size: int
    slide: int
    key_modulo: int | None = None

    def __post_init__(self) -> None:
        if self.slide <= 0 or self.size % self.slide:
            raise ConfigError("a workload's window must be a whole number of slides", detail=f"{self}")


@dataclass(frozen=True)
class Workload:
    """A named question. Result rows are told apart by `identity`; `exact` columns must be equal, `close` columns equal
    at 1e-9 relative."""

    name: str
    title: str
    query: WindowAggregate
    identity: tuple[str, ...] = ("k", "window_start")
    exact: tuple[str, ...] = ("n",)
    close: tuple[str, ...] = ("s",)

    @property
    def streams(self) -> tuple[str, ...]:
        return (self.query.stream,)


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("tumble", "10 s tumbling window, 100,000 keys", WindowAggregate("a", size=10, slide=10)),
        Workload(
            "slide",
            "60 s window sliding by 1 s, 100 keys",
            WindowAggregate("a", size=60, slide=1, key_modulo=100),
        ),
    )
}


def workload_named(name: str) -> Workload:
    """The workload of that name, or an error that suggests one."""
    if name not in WORKLOADS:
        raise ConfigError(f"unknown workload `{name}`", hint=did_you_mean(name, WORKLOADS))
    return WORKLOADS[name]
