from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import psutil

from penstock_bench.run.memory import PeakMemory, tree_memory

MIB = 2**20
HOLD = "import sys; held = bytearray(b'x' * (200 << 20)); print('held', flush=True); sys.stdin.read()"


def test_memory_of_this_process_is_seen_after_it_is_freed() -> None:
    with PeakMemory(period=0.01) as before:
        pass
    with PeakMemory(period=0.01) as during:
        block = np.ones(400 * MIB // 8)
        for _ in range(500):  # until a sample has seen it; a sampler that sees nothing fails below
            if during.peak > before.peak + 200 * MIB:
                break
            time.sleep(0.01)
        del block
    assert during.peak > before.peak + 200 * MIB


def test_children_are_counted() -> None:
    child = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdin is not None
    child.stdout.readline()
    # At one moment, for allocators give memory of earlier tests back when they like.
    alone, both = psutil.Process().memory_info().rss, tree_memory(psutil.Process())
    child.stdin.close()
    child.wait()
    child.stdout.close()
    assert both > alone + 100 * MIB
