"""The two ways in which Penstock treats state that exceeds its memory: all of it is read from files, or groups of it
are parked, and owe results until there is room or the input has ended."""

from __future__ import annotations

from penstock.api.run_options import RunOptions
from penstock_bench.peers.scale import Scale

READ, PARK = "read", "park"


def options(scale: Scale, way: str) -> RunOptions:
    """Return the options of a run. State beyond half of a site's memory is parked, if any is."""
    memory = scale.memory // scale.sites
    found: RunOptions = {"sites": scale.sites, "master": f"local[{scale.sites}]", "memory": memory}
    if way == PARK:
        found |= {"policy": "lazy-disk", "overflow": "park", "state_bytes": memory // 2, "round": "1s"}
    return found
