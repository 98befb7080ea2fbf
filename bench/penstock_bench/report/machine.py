"""The machine and the versions that figures belong to; nothing that names a host, a user or a folder."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from penstock.connectors.files.cuts import usable_cores
from penstock_bench.flink.environment import FlinkEnvironment

FLINK_ENVIRONMENT = FlinkEnvironment().folder
_LIBRARIES = ("pyspark", "duckdb", "pyarrow", "numpy", "pandas", "sqlglot")
_PROCESSORS = Path("/proc/cpuinfo")


def machine() -> dict[str, str]:
    """What to know of this machine, by name, in the order to show it; what cannot be found out is left out."""
    facts = {
        "cores": str(usable_cores()),
        "processor": _processor(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.1f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "Penstock": _version("penstock"),
        "Python": platform.python_version(),
        "Java": _java(),
        "Flink": flink_version(),
        **{name: _version(name) for name in _LIBRARIES},
    }
    return {name: value for name, value in facts.items() if value}


def _processor() -> str:
    try:
        text = _PROCESSORS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _java() -> str:
    """The version of the Java that a JVM would be started with."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if command is None:
        return ""
    try:
        told = subprocess.run([command, "-version"], capture_output=True, text=True, check=False, timeout=20).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return java_version(told)


def java_version(told: str) -> str:
    """The version in what `java -version` says."""
    found = re.search(r'version "([^"]+)"', told)
    return found[1] if found else ""


def flink_version(environment: Path = FLINK_ENVIRONMENT) -> str:
    """The version of PyPI's Flink in an environment of its own; empty where there is none."""
    found = sorted(environment.glob("lib/python*/site-packages/apache_flink-*.dist-info"))
    return found[-1].name.removeprefix("apache_flink-").removesuffix(".dist-info") if found else ""
