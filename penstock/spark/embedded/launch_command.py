"""The command that starts the JVM of an embedded Spark.

Spark's own script starts one JVM only to find out how to start another. On this host, and where nobody has configured
Spark otherwise, that is known beforehand: the second one is started at once.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from penstock.scratch import scratch_folder
from penstock.spark.embedded.class_archive import ClassArchive
from penstock.spark.embedded.java import Java

_LOGGING = Path(__file__).with_name("log4j2.properties")

# A young generation of fixed size is gone through in a few minutes and then used again and again: the memory of a
# stream that runs for months is what it was after these. The default collector takes more and more of the heap instead.
# The JVM only schedules, so one thread collects, and the dear compiler sees nothing but what is hot for long: it would
# take a core from the first epochs.
_STEADY_MEMORY = ("-XX:+UseSerialGC", "-Xmn192m")
_LATE_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
_OPENED = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.security.action", "sun.util.calendar",
)  # fmt: skip
_ACCESS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
)
_SERVER = "org.apache.spark.api.python.PythonGatewayServer"

# Whoever sets one of these, or has a folder `conf` in Spark's home, has configured Spark: its own script obeys them.
_CONFIGURES = (
    "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS", "SPARK_DIST_CLASSPATH", "SPARK_PREPEND_CLASSES",
    "SPARK_DRIVER_MEMORY", "SPARK_MEM", "SPARK_EXTRA_LISTENERS", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_TESTING",
)  # fmt: skip
_NEEDS_SCRIPT = ("spark.jars", "spark.submit.", "spark.files", "spark.archives", "spark.driver.extraClassPath",
                 "spark.driver.extraLibraryPath", "spark.driver.userClassPathFirst")  # fmt: skip


def starts_directly(home: Path, properties: Mapping[str, str]) -> bool:
    """Return whether the JVM can be started without Spark's script."""
    master = properties["spark.master"]
    return (
        os.name == "posix"
        and (master == "local" or master.startswith("local["))
        and not any(os.environ.get(name) for name in _CONFIGURES)
        and not any(name.startswith(_NEEDS_SCRIPT) for name in properties)
        and not (home / "conf").is_dir()
        and (home / "jars").is_dir()
    )


def direct_command(java: Java, home: Path, properties: Mapping[str, str], archive: ClassArchive) -> list[str]:
    """Return the command of the JVM itself."""
    asked = dict(properties)
    memory, more = asked.pop("spark.driver.memory"), asked.pop("spark.driver.extraJavaOptions", "")
    return [
        str(java.binary),
        "-cp",
        os.pathsep.join(map(str, class_path(home))),
        f"-Xmx{memory}",
        *_STEADY_MEMORY,
        *_LATE_COMPILER,
        f"-Djava.io.tmpdir={scratch_folder('java')}",
        "-XX:-UsePerfData",  # a file that only tools for developers read
        *archive.options(),
        f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
        *_ACCESS,
        *shlex.split(more),
        *(f"-D{name}={value}" for name, value in asked.items()),
        _SERVER,
    ]


def submit_command(home: Path, properties: Mapping[str, str]) -> list[str]:
    """Return the command of Spark's script, as PySpark has it."""
    options = " ".join([*_STEADY_MEMORY, f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"])
    given = {"spark.driver.extraJavaOptions": options, **properties}
    configured = [part for name, value in given.items() for part in ("--conf", f"{name}={value}")]
    return [
        str(home / "bin" / "spark-submit"),
        *configured,
        *shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")),
    ]


def class_path(home: Path) -> list[Path]:
    """Return Spark's jars, in one order on every machine; the logging facade first, as Spark has it."""
    return sorted((home / "jars").glob("*.jar"), key=lambda jar: (not jar.name.startswith("slf4j-api"), jar.name))
