"""On Spark: a driver, in a process of its own, that dies while groups change hands. `make chaos-moves` does so at
random moments, and kills executors too."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from signal import SIGKILL

import pytest
from moving_case import Moving, moving
from moving_driver import Orders

from penstock.control.requests import ScaleRequest

pytestmark = pytest.mark.spark


def test_a_query_is_scaled_while_its_driver_dies(random: Random, tmp_path: Path) -> None:
    """Before the manifest that knows the new directory is there, the old one holds; after it, the new one."""
    orders = Orders(str(random.random()), str(tmp_path / "run"), "local[2]")
    with moving(orders, random) as case:
        for step, (fault, then) in enumerate([("manifest.staged", 2), ("manifest.linked", 5)]):
            orders.gate.let_through(2 * step + 2)
            case.start(fault)
            case.idle().ask(ScaleRequest(5))
            assert case.driver.ended() == -SIGKILL, case.told(f"{fault} was never reached")
            assert case.sites == {then}
            case.died(fault)
        for sites in (3, 1, 8):
            case.listening().ask(ScaleRequest(sites))
            case.driver.ask(case.some_move())
            case.until(partial(_has, case, sites), f"had {sites} sites")
        case.finish()


def _has(case: Moving, sites: int) -> bool:
    return case.sites == {sites}
