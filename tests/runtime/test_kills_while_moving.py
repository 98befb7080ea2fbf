"""On Spark: a driver, in a process of its own, that dies while groups change hands. `make chaos-moves` does so at
random moments, and kills executors too."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from moving_case import moving
from moving_driver import Orders

from penstock.checkpoint.control import ScaleRequest

pytestmark = pytest.mark.spark


def test_a_query_is_scaled_while_its_driver_dies(random: Random, tmp_path: Path) -> None:
    """Before the manifest that knows the new directory is there, the old one holds; after it, the new one."""
    orders = Orders(str(random.random()), str(tmp_path / "run"), "local[2]")
    with moving(orders, random) as case:
        for step, (sites, fault, then) in enumerate(
            [(5, "manifest.staged", 2), (5, "manifest.linked", 5), (3, "publish.done", 3)]
        ):
            orders.gate.let_through(2 * step + 2)
            case.start(fault)
            case.listening().ask(ScaleRequest(sites))
            assert case.driver.ended() == -9, case.told(f"{fault} was never reached")
            assert case.sites == {then}
            case.died(fault)
        for sites in (1, 8):
            case.listening().ask(ScaleRequest(sites))
            case.driver.ask(case.some_move())
            case.until(lambda wanted=sites: case.sites == {wanted}, f"had {sites} sites")  # type: ignore[misc]
        case.finish()
