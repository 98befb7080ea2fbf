"""Records the golden checkpoints: half a run of each query of tests/support/golden.py, in the format that this version
of Penstock writes, to tests/golden/format-N/; and beside them a manifest in which every field has a value.

    python tools/golden.py

Run it once for each format, with the first version that writes it, and commit what it writes: recording anew hides
what the golden checkpoints are to show. It refuses to overwrite. The run is made in one folder whose name never changes
and with names of files from one seed, so that two recordings differ only where the format does.
"""

from __future__ import annotations

import shutil
import sys
import uuid
from pathlib import Path
from random import Random
from unittest.mock import patch

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "checkpoint")]

from manifest_case import full_manifest  # noqa: E402

from penstock.checkpoint.format import encode  # noqa: E402
from tests.support.golden import PRESENT, GoldenCase, GoldenPlace, begin, golden_cases  # noqa: E402

WORK = Path("/tmp/penstock-golden")  # manifests hold the paths of outputs


def main() -> None:
    if PRESENT.exists():
        sys.exit(f"{PRESENT} is recorded already; a format that has changed needs a new number")
    for name, case in golden_cases().items():
        record(name, case, PRESENT / name)
    (PRESENT / "manifest.json").write_bytes(encode(full_manifest()))
    print(f"{PRESENT}: {sum(path.stat().st_size for path in PRESENT.rglob('*') if path.is_file()):,} bytes")


def record(name: str, case: GoldenCase, target: Path) -> None:
    """Record one golden checkpoint."""
    place, random = GoldenPlace(WORK / name), Random(name)
    shutil.rmtree(place.root, ignore_errors=True)
    with patch.object(uuid, "uuid4", lambda: uuid.UUID(int=random.getrandbits(128), version=4)):
        begin(case, place)
    drop_old(place.checkpoint)
    shutil.copytree(place.checkpoint, target)
    shutil.rmtree(place.root)


def drop_old(checkpoint: Path) -> None:
    """Remove the lock, the older manifests, and runs that only those name: a golden checkpoint is small."""
    (checkpoint / "lock").unlink()
    *older, newest = sorted((checkpoint / "manifests").iterdir())
    named = newest.read_text()
    for path in (*older, *(run for run in (checkpoint / "runs").iterdir() if run.name not in named)):
        path.unlink()


if __name__ == "__main__":
    main()
