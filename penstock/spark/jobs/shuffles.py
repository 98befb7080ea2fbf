"""Forgetting the shuffle files of a finished epoch.

Spark drops them when the JVM happens to collect the RDD; a stream of small epochs would fill the disk before that.
"""

from __future__ import annotations

from typing import Any

from pyspark import RDD


def forget_shuffles(rdd: RDD[Any]) -> None:
    """Remove the shuffle files that the job of `rdd` wrote, and what the driver remembers of them."""
    cleaner = rdd.context._jsc.sc().cleaner()
    if cleaner.isDefined():
        for shuffle in _shuffle_ids(rdd._jrdd.rdd()):
            cleaner.get().doCleanupShuffle(shuffle, True)


def _shuffle_ids(java_rdd: Any) -> list[int]:
    found: list[int] = []
    dependencies = java_rdd.dependencies()
    for index in range(dependencies.size()):
        dependency = dependencies.apply(index)
        if dependency.rdd().getStorageLevel().useMemory():
            continue  # it outlives the epoch
        if dependency.getClass().getSimpleName() == "ShuffleDependency":
            found.append(dependency.shuffleId())
        found += _shuffle_ids(dependency.rdd())
    return found
