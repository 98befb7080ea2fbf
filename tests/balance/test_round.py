"""What follows from the figures of a round: idle time, output, cost per row, delay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from even_case import figures_of

from penstock.balance.keys import CellLoads
from penstock.state.directory import uniform

ROUND = figures_of(uniform(2, 2), [3000, 0, 1000, 0], speeds=[1.0, 0.5], pending=[600, 0, 0, 50], seconds=10.0)
ROUND = replace(ROUND, epochs=1)


def test_a_site_is_idle_for_what_it_does_not_use_of_its_share() -> None:
    assert ROUND.busy.tolist() == [3.0, 2.0]
    assert ROUND.idle.tolist() == [0.0, 1.0]


def test_a_row_costs_what_its_group_and_its_site_took_for_it() -> None:
    assert ROUND.cost_per_row == pytest.approx([0.001, 0, 0.002, 0])
    assert ROUND.site_cost_per_row == pytest.approx([0.001, 0.002])


def test_rows_wait_for_those_before_them_and_for_half_an_epoch() -> None:
    """Of the last group none was done, so those that are pending have waited for all of the round."""
    assert ROUND.delay == pytest.approx([600 / 300 + 5, 0, 5, 10 + 5])
    assert ROUND.site_delay == pytest.approx([600 / 300 + 5, 50 / 100 + 5])


def test_shorter_epochs_make_rows_wait_less() -> None:
    assert replace(ROUND, epochs=10).delay[2] == pytest.approx(0.5)


def test_output_adds_up_over_epochs_and_sites() -> None:
    both = ROUND.then(ROUND)
    assert both.loads.output.tolist() == [6000, 0, 2000, 0]
    assert both.output.tolist() == [6000, 2000]
    assert both.cost_per_row == pytest.approx(ROUND.cost_per_row)


def test_cells_belong_to_what_a_site_did() -> None:
    rows = np.asarray([[10, 30]])
    spread = replace(ROUND, cells=CellLoads(rows, rows, rows, rows / 10, rows * 2))
    assert (spread.done - ROUND.done).tolist() == [10, 30]
    assert (spread.then(spread).output - ROUND.then(ROUND).output).tolist() == [40, 120]
