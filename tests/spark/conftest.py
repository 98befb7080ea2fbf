"""One Spark context for all tests that need one, started with the first of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark import SparkContext

from penstock.spark.choice import pool_provider_of
from penstock.spark.session import spark_context

MASTER = "local[2,4]"  # a task may fail three times; plain local[2] never tries again


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkContext]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    context = spark_context(MASTER)
    yield context
    pool_provider_of(context).close()
    context.stop()
