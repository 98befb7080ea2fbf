"""Write the class archive, so that Spark starts faster: `python -m penstock.spark.prepare`.

Run it once after an installation, and again after a new version of Java or Spark. It starts workers on an embedded
Spark, whose JVM writes the classes that it has loaded when it ends.
"""

from __future__ import annotations

import os

from penstock.spark.embedded.class_archive import SWITCH, WRITE
from penstock.spark.session import spark_context
from penstock.spark.workers.pool import start_pool


def main() -> None:
    """Start and stop a worker pool; the JVM writes the archive at the end of this process."""
    os.environ[SWITCH] = WRITE
    context = spark_context("local[2]")
    if (pool := start_pool(context, 2)) is not None:
        pool.stop()
        pool.join()


if __name__ == "__main__":
    main()
