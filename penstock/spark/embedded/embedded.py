"""An embedded Spark: its properties, its JVM, its scratch files, its end.

This module does not import PySpark, so that the JVM can start before anything else is imported. Spark's own script
starts one JVM only to compute the command of another. On this host, and if Spark is not configured otherwise, the
command is known, and the second JVM is started directly.
"""

from __future__ import annotations

import os
import pwd
import shlex
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.scratch import scratch_folder
from penstock.spark.embedded.class_archive import ClassArchive, class_archive
from penstock.spark.embedded.java import Java, find_java
from penstock.spark.embedded.jvm import Jvm, spark_home

_PROPERTIES = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "penstock.spark.workers.daemon",
    "spark.driver.memory": "2g",
    # A stream runs for months: the JVM must keep little per finished job, and must collect weakly referenced objects
    # often enough for their files to be cleaned.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.cleaner.periodicGC.interval": "30s",
    # Not used.
    "spark.metrics.executorMetricsSource.enabled": "false",
    "spark.metrics.staticSources.enabled": "false",
    # Blobs are large binaries already; compressing them costs more than it saves on one host.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.broadcast.compress": "false",
}
_WRITING_ARCHIVE = 300.0  # seconds that a JVM may take to write its class archive
_LOGGING = Path(__file__).with_name("log4j2.properties")
# A young generation of fixed size is filled within minutes and then reused, so memory does not grow after that even if
# a stream runs for months. The default collector takes more and more of the heap instead. The JVM only schedules, so
# one collector thread is enough. The optimizing compiler (tier 4) gets only code that stays hot: otherwise it would
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
# If one of these is set, or Spark's home has a folder `conf`, Spark is configured: its own script must start the JVM.
_CONFIGURES = (
    "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS", "SPARK_DIST_CLASSPATH", "SPARK_PREPEND_CLASSES",
    "SPARK_DRIVER_MEMORY", "SPARK_MEM", "SPARK_EXTRA_LISTENERS", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_TESTING",
)  # fmt: skip
_NEEDS_SCRIPT = ("spark.jars", "spark.submit.", "spark.files", "spark.archives", "spark.driver.extraClassPath",
                 "spark.driver.extraLibraryPath", "spark.driver.userClassPathFirst")  # fmt: skip


def properties_for(master: str, name: str, options: dict[str, str] | None) -> dict[str, str]:
    """Return the properties of a context; `options` override the defaults."""
    found = {"spark.master": master, "spark.app.name": name}
    if master.startswith("local"):
        found["spark.executorEnv.PYTHONPATH"] = _module_folders()
    return {**found, **_PROPERTIES, **(options or {})}


@dataclass(frozen=True)
class Embedded:
    """A JVM with the properties that it was started with, and the class archive that it uses or writes."""

    jvm: Jvm
    properties: dict[str, str]
    archive: ClassArchive

    def give_up(self) -> None:
        """End a JVM on which no context could be created. If it died by itself, its class archive may be the cause and
        is removed."""
        if self.jvm.dead or self.archive.draft:
            self.archive.discard()
        self.jvm.kill()

    def close(self, in_order: bool) -> None:
        """End the JVM: kill it, unless the caller needs a normal exit or an archive is to be written."""
        if self.jvm.dead or not (in_order or self.archive.draft):
            self.jvm.kill()
        else:
            self.jvm.end(_WRITING_ARCHIVE)
        if self.archive.draft is None:
            return
        if self.jvm.process.returncode == 0:
            self.archive.publish()
        else:
            self.archive.discard()


_early: list[Embedded] = []  # JVMs that were started early and are not in use yet


def start_early(master: str) -> None:
    """Start the JVM of a context on `master` that will be needed soon."""
    if not _early:
        _early.append(_start(properties_for(master, "penstock", None)))


def start_embedded(properties: dict[str, str]) -> Embedded:
    """Return a new JVM with these properties, or the one that was started early with the same properties."""
    while _early:
        early = _early.pop()
        if early.properties == properties and not early.jvm.dead:
            return early
        early.jvm.kill()
    return _start(properties)


def _start(properties: dict[str, str]) -> Embedded:
    """Start a JVM, directly if possible, otherwise by Spark's script."""
    java = find_java()
    home = spark_home()
    if starts_directly(home, properties):
        archive = class_archive(java, class_path(home))
        command = direct_command(java, home, properties, archive)
    else:
        archive = ClassArchive()
        if properties["spark.master"].startswith("local-cluster") and "SPARK_HOME" not in os.environ:
            os.environ["SPARK_HOME"] = str(_linked_home(home))
        command = submit_command(spark_home(), properties)
    return Embedded(Jvm(command, _environment(properties)), properties, archive)


def _environment(properties: dict[str, str]) -> dict[str, str]:
    """Return the environment of the JVM, which the workers inherit."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    found = {**os.environ, "SPARK_CONNECT_MODE": "0"}
    if properties["spark.master"].startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        found["SPARK_LOCAL_IP"] = os.environ["SPARK_LOCAL_IP"]
        found["SPARK_LOCAL_DIRS"] = _private_folders(properties)
        with suppress(KeyError):  # a user without a name
            found.setdefault("SPARK_USER", pwd.getpwuid(os.geteuid()).pw_name)  # faster than through Hadoop
    return found


def _private_folders(properties: dict[str, str]) -> str:
    """Return the folders for shuffle files: in those that Spark would use, but accessible only to the user, and removed
    after this process has ended."""
    asked = os.environ.get("SPARK_LOCAL_DIRS") or properties.get("spark.local.dir", "")
    bases = [base.strip() for base in asked.split(",") if base.strip()] or [tempfile.gettempdir()]
    return ",".join(str(scratch_folder("spark", base)) for base in bases)


def _linked_home(home: Path) -> Path:
    """Return a folder with links to Spark's files, as another home: a cluster on this host writes its logs into the
    home, which must not be the installation."""
    linked = scratch_folder("home")
    for entry in home.iterdir():
        if entry.name != "work":
            (linked / entry.name).symlink_to(entry)
    return linked


def _module_folders() -> str:
    """Return the module search path of this process. A function of a module is pickled by name, so workers on this host
    must search the same folders."""
    return os.pathsep.join(dict.fromkeys(str(Path(entry).absolute()) for entry in sys.path))


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
    """Return the command that starts the JVM directly."""
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
        "-XX:-UsePerfData",  # do not write a file that only developer tools read
        *archive.options(),
        f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
        *_ACCESS,
        *shlex.split(more),
        *(f"-D{name}={value}" for name, value in asked.items()),
        _SERVER,
    ]


def submit_command(home: Path, properties: Mapping[str, str]) -> list[str]:
    """Return the command that starts the JVM by Spark's script, as PySpark does."""
    options = " ".join([*_STEADY_MEMORY, f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"])
    given = {"spark.driver.extraJavaOptions": options, **properties}
    configured = [part for name, value in given.items() for part in ("--conf", f"{name}={value}")]
    return [
        str(home / "bin" / "spark-submit"),
        *configured,
        *shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")),
    ]


def class_path(home: Path) -> list[Path]:
    """Return Spark's jars in the same order on every machine; the logging facade first, as in Spark's own class
    path."""
    return sorted((home / "jars").glob("*.jar"), key=lambda jar: (not jar.name.startswith("slf4j-api"), jar.name))
