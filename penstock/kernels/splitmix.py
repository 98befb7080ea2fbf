"""The mixer of splitmix64. The key hash and generated data depend on it, so it must never change."""

from __future__ import annotations

import numpy as np

from penstock.kernels.arrays import Words
from penstock.kernels.in_cache import blocks

STRIDE = np.uint64(0x9E3779B97F4A7C15)  # the step between the words that splitmix64 mixes


def mix(words: Words) -> Words:
    """Mix each word in place with a bijection in which every input bit affects every output bit; return the words."""
    for rows in blocks(len(words)):
        block = words[rows]
        other = np.empty_like(block)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            np.right_shift(block, np.uint64(shift), out=other)
            np.bitwise_xor(block, other, out=block)
            np.multiply(block, np.uint64(factor), out=block)
        np.right_shift(block, np.uint64(31), out=other)
        np.bitwise_xor(block, other, out=block)
    return words
