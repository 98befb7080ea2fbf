"""The Spark context that epochs run on: the one that is there, or an embedded one bound to loopback."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext

from penstock.runtime.gateway import jvm_options, quiet_gateway

_EMBEDDED = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "penstock.runtime.daemon",
    "spark.driver.memory": "2g",
    # A stream runs for months: what the JVM keeps per finished job must stay small, and weakly held leftovers must be
    # looked for often enough to be cleaned.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.cleaner.periodicGC.interval": "30s",
    # Blobs are large binaries already; compressing them costs more than it saves on one host.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.broadcast.compress": "false",
}


def spark_context(master: str, name: str = "penstock", options: dict[str, str] | None = None) -> SparkContext:
    """The running context if there is one, otherwise a new one on `master`."""
    running = SparkContext._active_spark_context
    if running is not None:
        return running
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if master.startswith("local-cluster") and "SPARK_HOME" not in os.environ:
        os.environ["SPARK_HOME"] = _home_of_its_own()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster(master).setAppName(name)
    if master.startswith("local"):
        conf.setIfMissing("spark.executorEnv.PYTHONPATH", _module_folders())
    for key, value in {**_EMBEDDED, **(options or {})}.items():
        conf.setIfMissing(key, value)
    if SparkContext._gateway is not None:
        return SparkContext(conf=conf)  # the JVM of an earlier context is still there
    conf.setIfMissing("spark.driver.extraJavaOptions", jvm_options())
    return SparkContext(conf=conf, gateway=quiet_gateway(conf))


def _home_of_its_own() -> str:
    """Spark's files under another home: a cluster on this host keeps its logs there, and not in the installation."""
    home = tempfile.mkdtemp(prefix="penstock-spark-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            Path(home, entry.name).symlink_to(entry)
    return home


def _module_folders() -> str:
    """Where this process finds modules. A function of one of them travels by name, so workers on this host look for it
    in the same places."""
    return os.pathsep.join(dict.fromkeys(str(Path(entry).absolute()) for entry in sys.path))
