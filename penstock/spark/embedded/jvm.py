"""The JVM of an embedded Spark: a process of our own, from its start to its end.

It listens for the driver on a port that it writes into a private file, and ends by itself when the driver has gone:
then its standard input is at an end. What it says while it starts is kept off the terminal.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from penstock.errors import PenstockError, StorageError
from penstock.scratch import scratch_folder

# The JVM itself says this, whatever the logging is set to.
_CHATTER = ("WARNING: Using incubator modules",)
_STACK = "\tat "  # a line of a stack, which says nothing to users
_NO_FOLDER = "Failed to create any local dir"
_PORT_BYTES = 4
_LOOK_EVERY = 0.01  # seconds between looks for the port
_GRACE = 10.0  # seconds for an orderly end
_NOTICED_WITHIN = 0.5  # seconds
_LAST_WORDS = 2.0  # seconds to read what a dead JVM said; workers that outlive it may keep its pipe open


class Connection(NamedTuple):
    port: int
    secret: str


class Jvm:
    """A JVM that is starting, running or dead. Invariant: it ends with this process at the latest."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._connection_file = scratch_folder("gateway") / "connection"
        self._tail: deque[str] = deque(maxlen=10)
        self._local_folders = environment.get("SPARK_LOCAL_DIRS", "")
        self._held: list[str] | None = []  # what it says until it is known to have started
        self._saying = threading.Lock()
        environment = {**environment, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._connection_file)}
        read_end, write_end = os.pipe()
        try:
            self.process = _launched(command, environment, write_end)
        except OSError as error:
            os.close(read_end)
            raise _not_started(f"{command[0]}: {error.strerror or error}") from error
        finally:
            os.close(write_end)
        self._exit_hook = self.kill
        atexit.register(self._exit_hook)
        self._reader = threading.Thread(target=self._read, args=(read_end,), name="penstock-spark-stderr", daemon=True)
        self._reader.start()

    def connection(self) -> Connection:
        """Wait until the driver can connect."""
        while not self._connection_file.exists():
            if self.dead:
                raise self.not_started()
            time.sleep(_LOOK_EVERY)
        told = self._connection_file.read_bytes()
        secret_at = 2 * _PORT_BYTES  # behind the port and the length of the secret
        return Connection(int.from_bytes(told[:_PORT_BYTES], "big"), told[secret_at:].decode())

    def show_errors(self) -> None:
        """Pass on what the JVM says, from now on and what it has said so far."""
        with self._saying:
            held, self._held = self._held or [], None
            for line in held:
                sys.stderr.write(line)

    @property
    def dead(self) -> bool:
        return self.process.poll() is not None

    def ends_soon(self) -> bool:
        """Return whether it is dead, or at its end: a connection breaks a little before its process has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_NOTICED_WITHIN)
        return self.dead

    def last_words(self, most: int = 10) -> str:
        """Return how the JVM ended, and what it said last, at most so many lines, not all of which may have been read
        yet."""
        if self.dead:
            self._reader.join(_LAST_WORDS)
        code, who = self.process.returncode, f"its JVM (process {self.process.pid})"
        how = f"{who} was killed by signal {-code}" if code and code < 0 else f"{who} ended with code {code}"
        return ". ".join([how if code else "its JVM ended", *[*self._tail][-most:]])

    def not_started(self, where: str = "") -> PenstockError:
        """Return why a JVM that is dying has not become a Spark."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE)
        words = self.last_words()
        if _NO_FOLDER not in words:
            return _not_started(words, where)
        return StorageError(
            f"Spark cannot make its folders in {self._local_folders}",
            detail=self.last_words(3),
            hint="make room there for files and folders, or let the environment variable SPARK_LOCAL_DIRS name "
            "other folders; a query with a checkpoint goes on where it stopped",
        )

    def kill(self) -> None:
        """End it at once. Python workers end with it."""
        with suppress(OSError):
            self.process.kill()
        self._ended()

    def end(self, seconds: float = _GRACE) -> None:
        """Let it end in order, within so many seconds."""
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.wait(seconds)
        self.kill()

    def _ended(self) -> None:
        self.process.wait()
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        atexit.unregister(self._exit_hook)

    def _read(self, read_end: int) -> None:
        """Everything but the chatter goes to the stderr of the moment, which a live screen may have taken over."""
        with open(read_end, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if not line.startswith(_CHATTER):
                    self._hold_or_show(line)
                    if not line.startswith(_STACK):
                        self._tail.append(line.strip())

    def _hold_or_show(self, line: str) -> None:
        with self._saying:
            if self._held is not None:
                self._held.append(line)
            else:
                sys.stderr.write(line)


def _launched(command: Sequence[str], environment: Mapping[str, str], says_to: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=says_to,  # stdout is for results
        stderr=says_to,
        env=environment,
        process_group=0,  # Ctrl-C is for the driver, which decides what becomes of the JVM
    )


def _not_started(detail: str, where: str = "") -> PenstockError:
    return PenstockError(
        f"Spark could not be started{where}",
        detail=detail,
        hint="run `java -version`: Spark needs Java 17 or newer and about 2 GB of memory; "
        "small data also runs without Spark, with master inline",
    )


def spark_home() -> Path:
    """Return the folder of Spark: the one of SPARK_HOME, or of the pyspark package."""
    if given := os.environ.get("SPARK_HOME"):
        return Path(given)
    from importlib.util import find_spec

    found = find_spec("pyspark")  # without importing it: the JVM starts meanwhile
    if found is None or found.origin is None:
        raise PenstockError("PySpark is not installed", hint="install it with `pip install 'pyspark>=4.3,<4.4'`")
    return Path(found.origin).resolve().parent
