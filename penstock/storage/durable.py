"""Files: durable writes, safe reads, and the names of files that belong to an epoch.

A crash leaves a file either complete or absent. This is the only place that syncs files and folders, at once or in
background threads. Regular files are opened safely: no link is followed, no pipe is waited for, no device is read.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeAlias

from penstock.storage.disk_errors import explained, is_lasting
from penstock.storage.faults import FaultPoint, reach

Sync: TypeAlias = Callable[[Path], None]


MOST_UNSYNCED = 64 << 20  # bytes that a task leaves to the threads while it goes on
_THREADS = 4
_EPOCH_OF_NAME = re.compile(r"e(\d+)-")


class NotDurable(OSError):
    """A file or a folder could not be synced. There is no retry: after a failed fsync the next one may report success
    for lost pages."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(errno.EIO, f"it could not be made durable: {error.strerror or error}", os.fspath(path))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def sync_file(path: Path) -> None:
    """Make the content of a finished file durable."""
    _sync(path, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise NotDurable(path, error) from error
    finally:
        os.close(descriptor)


@contextmanager
def writing(path: Path, size: int = 0) -> Iterator[None]:
    """Translate lasting errors of writing a file of `size` bytes (0: unknown). Errors that may be transient are raised
    unchanged."""
    try:
        yield
    except OSError as error:
        if not is_lasting(error):
            raise
        raise explained(error, path, size) from error


def write_new(path: Path, data: bytes | memoryview) -> None:
    """Write a file that must not exist yet, durably and readable by its owner only."""
    with writing(path, len(data)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


def create_exclusive(
    path: Path,
    data: bytes,
    staged: FaultPoint = FaultPoint.MANIFEST_STAGED,
    linked: FaultPoint = FaultPoint.MANIFEST_LINKED,
) -> bool:
    """Create `path` with `data` atomically and durably. Returns False, and changes nothing, if the path exists already.
    `staged` and `linked` are the caller's fault points.

    Uses link(2), which fails if the name exists; rename(2) would replace the file silently.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        write_new(temporary, data)
        reach(staged)
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    reach(linked)
    sync_folder(path.parent)
    return True


def make_private_folder(path: Path) -> None:
    """Create a folder and its parents, accessible by the owner only; an existing folder is left as it is."""
    with writing(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)


class BackgroundSync:
    """The files that are being synced. Invariants: files passed to `later` are durable when the future that `durable`
    returns after it has a result; when `later` returns, at most `MOST_UNSYNCED` bytes and one file are not durable. So
    after its last file, a task that has written much waits no longer than one that has written little."""

    def __init__(self) -> None:
        self._started: list[Future[None]] = []
        self._under_way = deque[tuple[Future[None], int]]()
        self._unsynced = 0  # bytes of the files under way

    def later(self, path: Path) -> None:
        """Start to make a finished file durable. Waits if too many bytes before it are not durable yet."""
        size, future = _size_of(path), _threads().submit(sync_file, path)
        while self._under_way and (self._unsynced > MOST_UNSYNCED or self._under_way[0][0].done()):
            oldest, bytes_of_oldest = self._under_way.popleft()
            wait([oldest])  # `durable` has its error
            self._unsynced -= bytes_of_oldest
        self._started.append(future)
        self._under_way.append((future, size))
        self._unsynced += size

    def durable(self) -> Future[None]:
        """Return a future that is done when all files so far are durable. It has the error of the first file that could
        not be synced."""
        every = Future[None]()
        _Countdown(every, len(self._started)).follow(self._started)
        return every


def _size_of(path: Path) -> int:
    """Return the size of a file; 0 if there is none, which syncing it will tell."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class _Countdown:
    """Completes the future `every` when `left` others have: with the first error, or after the last of them."""

    def __init__(self, every: Future[None], left: int) -> None:
        self._every, self._left, self._lock = every, left, threading.Lock()

    def follow(self, futures: Sequence[Future[None]]) -> None:
        """Count these futures, each when it is done."""
        if not futures:
            self._every.set_result(None)
        for one in futures:
            one.add_done_callback(self._count)

    def _count(self, done: Future[None]) -> None:
        with self._lock:
            self._left -= 1
            if self._every.done():
                return
            if (error := done.exception()) is not None:
                self._every.set_exception(error)
            elif self._left == 0:
                self._every.set_result(None)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="penstock-sync")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a child has none of its parent's threads


class NotPlain(OSError):
    """The path is not a regular file, or the file is larger than allowed."""


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file and return its descriptor; raises NotPlain for anything else. O_NONBLOCK keeps the open of a
    pipe from waiting for its other end."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotPlain("it is a symbolic link") from error
        if error.errno in (errno.EISDIR, errno.ENXIO):
            raise NotPlain(f"it is not a plain file but {_kind(os.lstat(path).st_mode)}") from error
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise NotPlain(f"it is not a plain file but {_kind(mode)}")
    return descriptor


def read_plain(path: Path, most: int) -> bytes:
    """Read a regular file of at most `most` bytes; raises NotPlain if it is larger."""
    with os.fdopen(open_plain(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise NotPlain(f"it has {size:,} bytes, and there can be {most:,} at most")
        return file.read(most)


def reason(error: OSError) -> str:
    """Return the text of the error without the path, which the message names already."""
    return error.strerror or str(error)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def staged_name(epoch: int, part: str, token: str, extension: str) -> str:
    """Return the name of a file of an epoch. `token` is random: a name is never used twice."""
    return f"e{epoch:012d}-{part}-{token}.{extension}"


def epoch_of_name(name: str) -> int | None:
    """Return the epoch of a file's name; None if the name has none."""
    match = _EPOCH_OF_NAME.match(name)
    return int(match[1]) if match else None
