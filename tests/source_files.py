"""The source files of the product, of its benchmark and of the harness of the tests."""

from __future__ import annotations

from pathlib import Path

import penstock
import penstock_bench

PACKAGE = Path(penstock.__file__).parent
HARNESS = Path(__file__).with_name("support")
BENCH = Path(penstock_bench.__file__).parent


def modules(package: Path = PACKAGE, name: str = "") -> dict[str, Path]:
    """Return the files of a package by the names of their modules; `name` is that of its folder unless given."""
    names = {}
    for path in sorted(package.rglob("*.py")):
        parts = (name or package.name, *path.relative_to(package).with_suffix("").parts)
        names[".".join(parts).removesuffix(".__init__")] = path
    return names
