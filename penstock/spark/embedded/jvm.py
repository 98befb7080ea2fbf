"""The JVM of an embedded Spark: a child process, from its start to its end.

The JVM listens for the driver on a port that it writes into a private file, and exits by itself when the driver has
ended: then its standard input is closed. Its output while it starts is not shown on the terminal.
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

# The JVM itself prints this, whatever the logging level is.
_CHATTER = ("WARNING: Using incubator modules",)
_STACK = "\tat "  # a line of a stack trace, of no use to users
_NO_FOLDER = "Failed to create any local dir"
_PORT_BYTES = 4
_LOOK_EVERY = 0.01  # seconds between two checks for the port
_GRACE = 10.0  # seconds for a normal exit
_NOTICED_WITHIN = 0.5  # seconds: a connection breaks a little before its process ends
_LAST_WORDS = 2.0  # seconds to read the output of a dead JVM; workers that outlive it may keep its pipe open


class Connection(NamedTuple):
    """The port and the secret by which the driver connects to the JVM."""

    port: int
    secret: str


class Jvm:
    """A JVM that is starting, running or dead. Invariant: it ends with this process at the latest."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._connection_file = scratch_folder("gateway") / "connection"
        self._tail: deque[str] = deque(maxlen=10)
        self._local_folders = environment.get("SPARK_LOCAL_DIRS", "")
        self._held: list[str] | None = []  # output until the JVM is known to have started
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
        """Wait until the driver can connect; return the port and the secret. Raise an error if the JVM dies."""
        while not self._connection_file.exists():
            if self.dead:
                raise self.not_started()
            time.sleep(_LOOK_EVERY)
        content = self._connection_file.read_bytes()
        secret_at = 2 * _PORT_BYTES  # after the port and the length of the secret
        return Connection(int.from_bytes(content[:_PORT_BYTES], "big"), content[secret_at:].decode())

    def show_errors(self) -> None:
        """Write the JVM's output to stderr: the output so far, and all later output."""
        with self._saying:
            held, self._held = self._held or [], None
            for line in held:
                sys.stderr.write(line)

    @property
    def dead(self) -> bool:
        """Return whether the process has ended."""
        return self.process.poll() is not None

    def ends_soon(self) -> bool:
        """Return whether the JVM is dead or ends shortly: a connection breaks a little before its process ends."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_NOTICED_WITHIN)
        return self.dead

    def last_words(self, most: int = 10) -> str:
        """Return how the JVM ended and the last lines of its output, at most `most`; some may not have been read
        yet."""
        if self.dead:
            self._reader.join(_LAST_WORDS)
        code, who = self.process.returncode, f"its JVM (process {self.process.pid})"
        how = f"{who} was killed by signal {-code}" if code and code < 0 else f"{who} ended with code {code}"
        return ". ".join([how if code else "its JVM ended", *[*self._tail][-most:]])

    def not_started(self, where: str = "") -> PenstockError:
        """Return the error for a JVM that ends before Spark has started; wait for its end first."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE)
        words = self.last_words()
        if _NO_FOLDER not in words:
            return _not_started(words, where)
        return StorageError(
            f"Spark cannot make its folders in {self._local_folders}",
            detail=self.last_words(3),
            hint="free space there, or set the environment variable SPARK_LOCAL_DIRS to other folders; "
            "a query with a checkpoint goes on where it stopped",
        )

    def kill(self) -> None:
        """Kill the JVM. Its Python workers end with it."""
        with suppress(OSError):
            self.process.kill()
        self._ended()

    def end(self, seconds: float = _GRACE) -> None:
        """Let the JVM exit normally; kill it after `seconds`."""
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.wait(seconds)
        self.kill()

    def _ended(self) -> None:
        """Wait for the end of the killed or exited process, and release its resources."""
        self.process.wait()
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        atexit.unregister(self._exit_hook)

    def _read(self, read_end: int) -> None:
        """Pass the JVM's output on line by line, except known noise. Uses the stderr of the moment, which a live
        display may have replaced."""
        with open(read_end, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if not line.startswith(_CHATTER):
                    self._hold_or_show(line)
                    if not line.startswith(_STACK):
                        self._tail.append(line.strip())

    def _hold_or_show(self, line: str) -> None:
        """Keep a line until the JVM has started; write it to stderr after that."""
        with self._saying:
            if self._held is not None:
                self._held.append(line)
            else:
                sys.stderr.write(line)


def _launched(command: Sequence[str], environment: Mapping[str, str], says_to: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=says_to,  # the driver's stdout is for results
        stderr=says_to,
        env=environment,
        process_group=0,  # Ctrl-C must reach only the driver, which then ends the JVM
    )


def _not_started(detail: str, where: str = "") -> PenstockError:
    return PenstockError(
        f"Spark could not be started{where}",
        detail=detail,
        hint="run `java -version`: Spark needs Java 17 or newer and about 2 GB of memory; "
        "small data also runs without Spark, with master inline",
    )


def spark_home() -> Path:
    """Return the home of Spark: SPARK_HOME if set, otherwise the folder of the pyspark package."""
    if given := os.environ.get("SPARK_HOME"):
        return Path(given)
    from importlib.util import find_spec

    found = find_spec("pyspark")  # without importing it, so that the JVM starts earlier
    if found is None or found.origin is None:
        raise PenstockError("PySpark is not installed", hint="install it with `pip install 'pyspark>=4.3,<4.4'`")
    return Path(found.origin).resolve().parent
