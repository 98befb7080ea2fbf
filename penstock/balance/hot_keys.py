"""Hot keys: one that is too much for a site is spread over several, one that no longer is is gathered. Pure.

Below the work that a site has on average, a key is no problem: the other groups of its site move away. Above it no
distribution of groups is even, and whatever splits a group leaves the key in one half.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from penstock.balance.decisions import Decision, Gather, Spread
from penstock.balance.estimate import NOISE_ROWS, Demand
from penstock.balance.keys import KeyLoad
from penstock.balance.stats import Round

HOT_KEY = 1.0  # of what a site does on average: a key with more is spread
COLD_KEY = 0.5  # a key that would have less at one site is gathered; the gap keeps it from going to and fro
CELL = 0.5  # of what a site does on average: so much a cell should have, so that it fits beside groups
MOST_SPREAD = 16  # keys: with more that are too hot there would be other means


def spreads(figures: Round, asked: Demand, least_gain: float) -> list[Decision]:
    """Spreads of keys that are too much for a site, the hottest first, where that gains enough."""
    directory = figures.directory
    if directory.sites < 2 or not figures.may_cut or asked.ideal <= 0:
        return []
    work = {key: _work(figures, asked, key) for key in figures.keys if directory.cells_at(key.hash) is None}
    hot = [key for key, part in work.items() if part > HOT_KEY * asked.ideal and key.total > NOISE_ROWS]
    hot = sorted(hot, key=lambda key: -work[key])[: max(0, MOST_SPREAD - len(directory.spread))]
    made = [_spread(figures, asked, key, work[key]) for key in hot]
    return [decision for decision in made if decision.gain > least_gain]


def _work(figures: Round, asked: Demand, key: KeyLoad) -> float:
    """The work of a key: its part of that of its group, by rows."""
    place = figures.directory.place_at(key.hash)
    return float(asked.work[place]) * min(1.0, key.total / max(1, int(figures.loads.rows[place])))


def _spread(figures: Round, asked: Demand, key: KeyLoad, work: float) -> Decision:
    """The larger side is cut. The home has a cell, for it keeps what it has; the others are at the fastest sites."""
    sites, home = figures.directory.sites, figures.directory.home_at(key.hash)
    cut = max(figures.may_cut, key=lambda port: key.rows[port])
    count = min(sites, max(2, ceil(work / (CELL * asked.ideal))))
    load = asked.of_sites(figures)
    others = [int(site) for site in np.argsort(load / asked.speeds, kind="stable") if site != home]
    cells = (home, *others[: count - 1])
    before = float((load / asked.speeds).max())
    load[home] -= work
    load[list(cells)] += work * (key.rows[cut] / count + key.total - key.rows[cut]) / key.total
    gain = 1 - float((load / asked.speeds).max()) / before
    reason = f"this key has {work / asked.ideal:.0%} of the work that a site has on average"
    return Decision(Spread(key.hash, cut, cells), reason, max(0.0, gain))


def gathers(figures: Round, asked: Demand) -> list[Decision]:
    """Keys that one site could do again. In a round with hardly any rows all keys look cold."""
    cells, sites = figures.cells, figures.directory.sites
    if figures.rows_in < NOISE_ROWS * sites:
        return []
    made = []
    for number, known in enumerate(figures.directory.spread):
        cut, copied = int(cells.cut[number].sum()), int(cells.copied[number].max())
        there = max(1, cut + len(known.sites) * copied)
        work = float(asked.cells[number].sum()) * (cut + copied) / there
        if work < COLD_KEY * asked.ideal and not known.gathering:
            reason = f"this key has {work / asked.ideal:.0%} of the work that a site has on average"
            made.append(Decision(Gather(known.hash), reason))
    return made
