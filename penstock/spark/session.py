"""The Spark context that epochs run on: the running one, or an embedded one bound to loopback."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from penstock.errors import PenstockError
from penstock.spark.embedded.embedded import Embedded, properties_for, start_embedded
from penstock.spark.embedded.jvm import Connection, Jvm
from penstock.spark.failures import first_line, short_reason

_log = logging.getLogger(__name__)
_jvms: dict[int, Jvm] = {}  # the JVMs of contexts, by process id
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"

_PY4J = f"{os.sep}py4j{os.sep}"
# Py4J logs a trace of every call to a dead JVM with the root logger; Penstock raises its own error for that.
logging.getLogger().addFilter(lambda record: _PY4J not in record.pathname)


def spark_context(master: str, name: str = "penstock", options: dict[str, str] | None = None) -> SparkContext:
    """Return the running context if there is one, otherwise a new one on `master`."""
    running = SparkContext._active_spark_context
    if running is not None and jvm_is_dead(running):
        _forget(running)
    elif running is not None:
        _log.debug("using the Spark context that is running on %s", running.master)
        return running
    properties = properties_for(master, name, options)
    if SparkContext._gateway is not None or _PORT in os.environ:  # the JVM of an earlier context or of another program
        return SparkContext(conf=SparkConf(loadDefaults=False).setAll(list(properties.items())))
    started = start_embedded(properties)
    try:
        context = _context_on(started)
        if _log.isEnabledFor(logging.INFO):  # asking for the id is a call to the JVM
            _log.info("Spark is ready on %s, application %s", master, context.applicationId)
        return context
    except BaseException:
        started.give_up()
        _forget(SparkContext._active_spark_context)
        raise


def jvm_is_dead(context: SparkContext) -> bool:
    """Return whether the JVM of the context is known to have ended."""
    process = getattr(context._gateway, "proc", None)
    return process is not None and process.poll() is not None


def spark_folder(context: SparkContext) -> Path:
    """Return the folder in which Spark keeps the files of this driver; the first one if there are several."""
    return Path(str(context._temp_dir))


def last_words(context: SparkContext) -> str:
    """Return how the JVM of the context ended and its last lines of output, as far as known."""
    process = getattr(context._gateway, "proc", None)
    jvm = None if process is None else _jvms.get(process.pid)
    return "its JVM has ended" if jvm is None else jvm.last_words()


def _context_on(started: Embedded) -> SparkContext:
    """Return a context on an embedded JVM, and arrange that the JVM ends with this process."""
    threading.Thread(target=_first_array, name="penstock-warm-up", daemon=True).start()
    connection = started.jvm.connection()
    # The JVM got its properties at its start; setting one here would cost a round trip.
    conf = SparkConf(loadDefaults=False).setMaster(started.properties["spark.master"])
    before = signal.getsignal(signal.SIGINT)
    try:
        gateway = _connected(connection)
        gateway.proc = started.jvm.process
        _jvms[started.jvm.process.pid] = started.jvm
        context = SparkContext(conf=conf.setAppName(started.properties["spark.app.name"]), gateway=gateway)
    except (Py4JError, PySparkException, OSError) as error:
        raise _not_started(started, error) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)  # PySpark's handler calls the JVM, which may be dead
    context._accumulatorServer.handle_error = lambda *_: None  # it prints a trace when the JVM ends
    started.jvm.show_errors()
    atexit.register(_close, context, started)
    return context


def _first_array() -> None:
    """Make Arrow import pandas, as it does for its first array, while the JVM starts."""
    pa.array([0]).to_numpy()


def _connected(connection: Connection) -> Any:
    """Return PySpark's gateway to a running JVM."""
    os.environ.update({_PORT: str(connection.port), _SECRET: connection.secret})
    try:
        return launch_gateway()
    finally:
        del os.environ[_PORT], os.environ[_SECRET]


def _close(context: SparkContext, started: Embedded) -> None:
    """End an embedded Spark at the end of the process. Commits are in files, so the JVM can be killed, unless other
    code has used the context, too."""
    from pyspark.sql import SparkSession

    others = SparkSession._instantiatedSession is not None or "spark.eventLog.enabled" in started.properties
    if others and not started.jvm.dead and SparkContext._active_spark_context is context:
        try:
            context.stop()
        except Exception as error:  # the process ends in any case, and the JVM with it
            _log.warning("Spark could not be stopped in order: %s", short_reason(error))
    started.close(in_order=others)


def _forget(context: SparkContext | None) -> None:
    """Reset PySpark so that it can start another JVM: it assumes one JVM for the life of a process."""
    from pyspark.sql import SparkSession

    if context is not None and hasattr(context, "_accumulatorServer"):
        context._accumulatorServer.shutdown()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def _not_started(started: Embedded, error: Exception) -> PenstockError:
    """Return the error for a context that could not be created. The output of a dead JVM explains it best."""
    master = started.properties["spark.master"]
    if started.jvm.ends_soon():
        return started.jvm.not_started(f" on {master}")
    return PenstockError(
        f"Spark could not be started on {master}",
        detail=first_line(str(getattr(error, "java_exception", error))),
        hint="check the master and that it can be reached; `local[*]` needs no cluster, and `inline` needs no Spark",
    )
