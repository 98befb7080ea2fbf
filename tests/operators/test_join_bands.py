"""What bands between some inputs say about all of them, against trying all times."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators.bands import Band, leads

SPAN = st.one_of(st.none(), st.integers(-2, 3))
BAND = st.builds(Band, st.integers(0, 2), st.integers(0, 2), SPAN, SPAN).filter(lambda band: band.left != band.right)
TIMES = [(0, *rest) for rest in product(range(-14, 15), repeat=2)]  # two bands in a row reach at most 6


def allows(band: Band, times: tuple[int, ...]) -> bool:
    lead = times[band.right] - times[band.left]
    return (band.before is None or lead >= -band.before) and (band.after is None or lead <= band.after)


@settings(deadline=None)
@given(st.lists(BAND, max_size=4))
def test_leads_are_the_largest_that_the_bands_allow(bands: list[Band]) -> None:
    table = leads(3, bands)
    possible = [times for times in TIMES if all(allows(band, times) for band in bands)]
    for i, j in product(range(3), repeat=2):
        lead, most = table[i][j], max((times[j] - times[i] for times in possible), default=None)
        if most is not None:
            assert lead == most if lead is not None else most > 6
    contradictory = any(a is not None and b is not None and a + b < 0 for a, b in pairs_of(table))
    assert contradictory == (not possible)


def pairs_of(table: tuple[tuple[int | None, ...], ...]) -> list[tuple[int | None, int | None]]:
    return [(table[i][j], table[j][i]) for i, j in product(range(3), repeat=2)]
