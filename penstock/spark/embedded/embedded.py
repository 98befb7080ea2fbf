"""An embedded Spark: its properties, its JVM, its scratch files, its end.

Nothing here imports PySpark, so that the JVM can be on its way before anything else is imported.
"""

from __future__ import annotations

import os
import pwd
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.scratch import scratch_folder
from penstock.spark.embedded.class_archive import ClassArchive, class_archive
from penstock.spark.embedded.java import find_java
from penstock.spark.embedded.jvm import Jvm, spark_home
from penstock.spark.embedded.launch_command import class_path, direct_command, starts_directly, submit_command

_PROPERTIES = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "penstock.spark.workers.daemon",
    "spark.driver.memory": "2g",
    # A stream runs for months: what the JVM keeps per finished job must stay small, and weakly held leftovers must be
    # looked for often enough to be cleaned.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.cleaner.periodicGC.interval": "30s",
    # Nobody reads these.
    "spark.metrics.executorMetricsSource.enabled": "false",
    "spark.metrics.staticSources.enabled": "false",
    # Blobs are large binaries already; compressing them costs more than it saves on one host.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.broadcast.compress": "false",
}
_WRITING_ARCHIVE = 300.0  # seconds that a JVM may take for its class archive


def properties_for(master: str, name: str, options: dict[str, str] | None) -> dict[str, str]:
    """Return the properties of a context; those of the caller are stronger."""
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
        """End a JVM that did not become a context. Its class archive may be to blame where it died by itself."""
        if self.jvm.dead or self.archive.draft:
            self.archive.discard()
        self.jvm.kill()

    def close(self, in_order: bool) -> None:
        """End the JVM: at once, unless somebody relies on an orderly end or an archive is to be written."""
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


_early: list[Embedded] = []  # started, and not taken yet


def start_early(master: str) -> None:
    """Start the JVM of a context on `master` that will be wanted soon."""
    if not _early:
        _early.append(_start(properties_for(master, "penstock", None)))


def start_embedded(properties: dict[str, str]) -> Embedded:
    """Return a new JVM with these properties, or the one that was started early with the same."""
    while _early:
        early = _early.pop()
        if early.properties == properties and not early.jvm.dead:
            return early
        early.jvm.kill()
    return _start(properties)


def _start(properties: dict[str, str]) -> Embedded:
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
    """Return the environment of the JVM, and through it that of the workers."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    found = {**os.environ, "SPARK_CONNECT_MODE": "0"}
    if properties["spark.master"].startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        found["SPARK_LOCAL_IP"] = os.environ["SPARK_LOCAL_IP"]
        found["SPARK_LOCAL_DIRS"] = _private_folders(properties)
        with suppress(KeyError):  # a user without a name
            found.setdefault("SPARK_USER", pwd.getpwuid(os.geteuid()).pw_name)  # asking Hadoop takes longer
    return found


def _private_folders(properties: dict[str, str]) -> str:
    """Return the folders of shuffle files: inside those that Spark would use, but for their owner only, and removed
    when their owner has gone."""
    asked = os.environ.get("SPARK_LOCAL_DIRS") or properties.get("spark.local.dir", "")
    bases = [base.strip() for base in asked.split(",") if base.strip()] or [tempfile.gettempdir()]
    return ",".join(str(scratch_folder("spark", base)) for base in bases)


def _linked_home(home: Path) -> Path:
    """Return Spark's files under another home: a cluster on this host keeps its logs there, not in the installation."""
    linked = scratch_folder("home")
    for entry in home.iterdir():
        if entry.name != "work":
            (linked / entry.name).symlink_to(entry)
    return linked


def _module_folders() -> str:
    """Return where this process finds modules. A function of one of them travels by name, so workers on this host look
    for it in the same places."""
    return os.pathsep.join(dict.fromkeys(str(Path(entry).absolute()) for entry in sys.path))
