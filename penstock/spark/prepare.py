"""Writes the class archive, so that Spark starts faster from then on: `python -m penstock.spark.prepare`.

To be run once after an installation, and again after a new version of Java or Spark. Workers are
started on an embedded Spark, whose JVM writes the classes that it has loaded when it ends.
"""

from __future__ import annotations

import os

from penstock.spark.embedded.class_archive import SWITCH, WRITE
from penstock.spark.session import spark_context
from penstock.spark.workers.pool import hire


def main() -> None:
    """Run a query whose JVM writes the archive at the end of this process."""
    os.environ[SWITCH] = WRITE
    context = spark_context("local[2]")
    if (crew := hire(context, 2)) is not None:
        crew.dismiss()
        crew.wait_until_gone()


if __name__ == "__main__":
    main()
