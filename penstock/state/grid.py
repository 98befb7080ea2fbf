"""The grid of a theta join: its shape for a number of sites, and its cells as points of the hash space. Pure.

Each cell is the middle point of an equal share of the hash space. So the rows of a cell are contiguous in a run, and a
cell can be a partition group that moves by itself.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.state.hash_ranges import HASH_END

Grid = tuple[int, int]  # the numbers of rows and columns of cells
MOST_LENGTH = 3  # the largest ratio of columns to rows: the rows sent over the network grow with both


def grid_for(sites: int) -> Grid:
    """Return the grid with the fewest cells that has at least one cell per site; of several, the one closest to a
    square."""
    shapes = [(rows, -(-sites // rows)) for rows in range(1, sites + 1)]
    near = [(rows, columns) for rows, columns in shapes if rows <= columns <= MOST_LENGTH * rows]
    return min(near or [(1, sites)], key=lambda shape: (shape[0] * shape[1], shape[1]))


def cell_hashes(grid: Grid) -> npt.NDArray[np.uint64]:
    """Return the hash of each cell. Cells are numbered row by row."""
    cells = grid[0] * grid[1]
    return np.array([(2 * cell + 1) * HASH_END // (2 * cells) for cell in range(cells)], dtype=np.uint64)
