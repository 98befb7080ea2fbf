"""The daemon of Spark's Python workers, those of Penstock, with sites that can be slowed (`slowdown`)."""

from __future__ import annotations

from penstock.spark.workers.daemon import fork_workers
from penstock_bench.adapt.slowdown import make_sites_slowable

if __name__ == "__main__":
    make_sites_slowable()
    fork_workers()
