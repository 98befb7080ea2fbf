"""Starting the JVM of an embedded Spark, with its start-up chatter kept off the terminal."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from pathlib import Path

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from penstock.errors import PenstockError

# The JVM itself says this, whatever the logging is set to.
_CHATTER = ("WARNING: Using incubator modules",)
_LOGGING = Path(__file__).with_name("log4j2.properties")


# A young generation of fixed size is gone through in a few minutes and then used again and again: the memory of a
# stream that runs for months is what it was after these. The default collector takes more and more of the heap instead.
_STEADY_MEMORY = "-XX:+UseParallelGC -XX:-UseAdaptiveSizePolicy -Xmn192m"


def jvm_options() -> str:
    """Options of the JVM: steady memory, and only errors in the log."""
    return f"{_STEADY_MEMORY} -Dlog4j2.configurationFile={_LOGGING.as_uri()}"


def quiet_gateway(conf: SparkConf) -> JavaGateway:
    """A new JVM whose stderr passes through this process."""
    read_end, write_end = os.pipe()
    tail: deque[str] = deque(maxlen=10)
    reader = threading.Thread(target=_pass_on, args=(read_end, tail), name="penstock-spark-stderr", daemon=True)
    reader.start()
    try:
        return launch_gateway(conf, {"stderr": write_end})
    except (PySparkRuntimeError, OSError) as error:
        raise _not_started(tail, error) from error
    finally:
        os.close(write_end)


def _pass_on(read_end: int, tail: deque[str]) -> None:
    """Everything but the chatter goes to the stderr of the moment, which a live screen may have taken over."""
    with open(read_end, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith(_CHATTER):
                continue
            tail.append(line.strip())
            sys.stderr.write(line)


def _not_started(tail: deque[str], error: Exception) -> PenstockError:
    return PenstockError(
        "Spark could not be started",
        detail=" ".join(tail) or str(error),
        hint="Spark needs Java 17 or newer: install openjdk-17-jre-headless, or set JAVA_HOME to one; "
        "small data also runs without Spark, with master inline",
    )
