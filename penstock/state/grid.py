"""The grid of a theta join: its cells as points of the hash space, and the grid that a number of sites calls for. Pure.

Every cell is a point in the middle of its share of the hash space: its rows stand together in a run, and it is a
partition group that can move by itself.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.state.hash_ranges import HASH_END

Grid = tuple[int, int]  # how many rows and columns of cells
MOST_LENGTH = 3  # a grid has at most so many times as many columns as rows: what travels grows with both


def grid_for(sites: int) -> Grid:
    """The grid with the fewest cells, one for each site at least; of several the one that is nearest to a square."""
    shapes = [(rows, -(-sites // rows)) for rows in range(1, sites + 1)]
    near = [(rows, columns) for rows, columns in shapes if rows <= columns <= MOST_LENGTH * rows]
    return min(near or [(1, sites)], key=lambda shape: (shape[0] * shape[1], shape[1]))


def cell_hashes(grid: Grid) -> npt.NDArray[np.uint64]:
    """The hash of each cell; cells are numbered row by row."""
    cells = grid[0] * grid[1]
    return np.array([(2 * cell + 1) * HASH_END // (2 * cells) for cell in range(cells)], dtype=np.uint64)
