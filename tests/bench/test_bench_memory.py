from __future__ import annotations

import subprocess
import sys
import time

import numpy as np

from penstock.bench.memory import PeakMemory

MIB = 2**20
HOLD = "import sys; held = bytearray(b'x' * (200 << 20)); print('held', flush=True); sys.stdin.read()"


def test_memory_of_this_process_is_seen_after_it_is_freed() -> None:
    with PeakMemory(period=0.01) as before:
        pass
    with PeakMemory(period=0.01) as during:
        block = np.ones(200 * MIB // 8)
        for _ in range(500):  # until a sample has seen it; a sampler that sees nothing fails below
            if during.peak > before.peak + 150 * MIB:
                break
            time.sleep(0.01)
        del block
    assert during.peak > before.peak + 150 * MIB


def test_children_are_counted() -> None:
    with PeakMemory(period=0.01) as alone:
        pass
    child = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdin is not None
    child.stdout.readline()
    with PeakMemory(period=0.01) as both:
        pass
    child.stdin.close()
    child.wait()
    child.stdout.close()
    assert both.peak > alone.peak + 190 * MIB
