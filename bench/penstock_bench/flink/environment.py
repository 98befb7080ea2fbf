"""Where Flink is: an environment of its own beside the checkout's, made by `make flink`. Penstock is not installed in
it, and Flink is not installed where Penstock is: their dependencies exclude each other."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
DRIVER = Path(__file__).with_name("driver.py")
CONNECTOR = Path(__file__).with_name("connector")  # the Java files of the connector `columns`
HINT = "make flink"


@dataclass(frozen=True)
class FlinkEnvironment:
    """Invariant of the folder: `stamp` is written last, so an environment with a stamp newer than the connector is
    whole."""

    folder: Path = CHECKOUT / ".flink-env"

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def classes(self) -> Path:
        return self.folder / "penstock-classes"

    @property
    def stamp(self) -> Path:
        return self.folder / ".penstock-setup"

    def missing(self) -> str | None:
        """Why it cannot be used, or None."""
        if not self.stamp.exists():
            return f"Apache Flink is not installed ({HINT} installs it)"
        changed = [file for file in CONNECTOR.glob("*.java") if file.stat().st_mtime > self.stamp.stat().st_mtime]
        return f"Flink's connector has changed since it was compiled ({HINT} compiles it)" if changed else None

    def variables(self, memory_gib: int, logs: Path) -> dict[str, str]:
        """The environment variables of the driver. Flink appends Hadoop's class path to its own, whatever it holds. A
        heap of fixed size and the parallel collector cost Flink least."""
        return os.environ | {
            "HADOOP_CLASSPATH": str(self.classes),
            "JVM_ARGS": f"-Xmx{memory_gib}g -Xms{memory_gib}g -XX:+UseParallelGC",
            "FLINK_LOG_DIR": str(logs),
        }


def available() -> str | None:
    """Why Flink cannot be measured here, or None."""
    return FlinkEnvironment().missing()
