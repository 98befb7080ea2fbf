"""Penstock: exact, adaptive, out-of-order stateful streaming on Spark.

import penstock as ps
calls = ps.read.files("calls/*.parquet", time="ts", progress=ps.slack("2s"))
busy = calls.group_by("district").window(ps.sliding("1m", every="10s")).agg(n=ps.count(), mean=ps.avg("duration"))
run = busy.to.files("out/busy").start(checkpoint="ck", sites=2)
run.wait()
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.api.public import *  # noqa: F403

logging.getLogger(__name__).addHandler(logging.NullHandler())  # quiet until the program configures logging


def __getattr__(name: str) -> Any:
    """Import the public names when one of them is first used: workers need none, and the command line starts Spark
    before it imports large modules."""
    if name.startswith("_") and name not in ("__all__", "__version__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    public = import_module("penstock.api.public")
    if name == "__all__" or name in public.__all__:
        return globals().setdefault(name, getattr(public, name))
    if name in globals():  # a module of the package, imported by now
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module("penstock.api.public").__all__})
