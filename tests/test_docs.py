"""The documentation: its code runs, its tables are complete, its reference is that of the code, its links are whole.

A page is run from top to bottom in a folder of its own. `sh` blocks run in bash (not those that begin with `make`:
they are about the checkout); `python` and `sql` blocks whose first line is a comment with a file name are saved under
that name, other `python` blocks run one after another in one namespace. A `text` block is what the block before it
prints. Other blocks, as those without a kind, are not run: such as commands that go on until somebody ends them.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.api.launch import settings_from
from penstock.balance import policies
from penstock.connectors import registry
from penstock.settings import Settings
from penstock.storage.faults import FaultPoint

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
MEASURED = {DOCS / "benchmarks.md"}  # written when the benchmarks are run
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SAVED = re.compile(r"(?:#|--) (\w+\.(?:py|sql))\n")


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    kind: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}, line {self.line}"


def blocks_of(text: str, page: str) -> Iterator[Block]:
    for found in _FENCE.finditer(text):
        yield Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2])


class Reader:
    """Someone who does what a page says, in the current folder."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._printed = ""

    def follow(self, block: Block) -> None:
        match block.kind:
            case "python" | "sql" if saved := _SAVED.match(block.text):
                Path(saved[1]).write_text(block.text)
            case "python":
                self._printed = self._python(block)
            case "sh" if not block.text.startswith("make "):
                self._printed = _shell(block)
            case "text":
                assert self._printed.rstrip() == block.text.rstrip(), block.place
            case "sql":
                pytest.fail(f"{block.place}: the block does not say under which name to save it")

    def _python(self, block: Block) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, block.place, "exec"), self._names)
        return printed.getvalue()


def _shell(block: Block) -> str:
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", block.text], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{block.place}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A reader in an empty folder, after `make setup`; without Spark, which the results do not depend on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PENSTOCK_MASTER", "inline")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # for checkpoints that are not named
    monkeypatch.setattr(policies, "_known", dict(policies._known))  # what a page registers is gone with it
    monkeypatch.setattr(registry.sources, "_known", dict(registry.sources._known))
    return Reader()


HOW_TO = [str(page.relative_to(ROOT)) for page in sorted((DOCS / "how-to").glob("*.md"))]
RUN = ["README.md", "docs/tutorial.md", "docs/concepts.md", "docs/format.md", *HOW_TO]


@pytest.mark.parametrize("page", RUN)
def test_the_code_of_a_page_runs_as_it_is_written(page: str, newcomer: Reader) -> None:
    followed = [newcomer.follow(block) for block in blocks_of((ROOT / page).read_text(), page)]
    assert followed or page in HOW_TO, "the page has no code"


def test_a_wrong_page_is_found(newcomer: Reader) -> None:
    with pytest.raises(AssertionError):
        newcomer.follow(Block("page", 1, "sh", "false"))
    newcomer.follow(Block("page", 1, "python", "print(1)"))
    newcomer.follow(Block("page", 1, "text", "1\n"))
    with pytest.raises(AssertionError):
        newcomer.follow(Block("page", 1, "text", "2\n"))


def test_the_master_comes_from_the_environment_only_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_MASTER", "inline")
    assert settings_from({}).master == "inline"
    assert settings_from({"master": "local[3]"}).master == "local[3]"
    monkeypatch.setenv("PENSTOCK_MASTER", "")
    assert settings_from({}) == Settings()


def test_every_fault_point_is_in_the_life_of_an_epoch() -> None:
    rows = re.findall(r"^\| `([a-z]+\.[a-z]+)` \|", (DOCS / "life-of-an-epoch.md").read_text(), re.MULTILINE)
    assert rows == [point.value for point in FaultPoint]


TERMS = (
    "stream", "row", "schema", "punctuation", "low-water mark", "split", "query", "operator", "subquery", "site",
    "epoch", "round", "partition group", "directory", "run", "slice", "generation", "pending",
    "exchange", "merger", "controller", "policy", "decision", "move", "split (of a group)", "merge", "park",
    "clean up", "manifest", "late row", "joint punctuation", "floor", "branch", "port", "track", "lane", "cell",
    "fresh", "stored", "held",
)  # fmt: skip


def test_every_word_is_in_the_glossary() -> None:
    defined = re.findall(r"^\*{1,2}(.+?)\*{1,2}:", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    known = {word.strip() for entry in defined for word in entry.split(",")}
    assert set(TERMS) - known == set()


def test_the_reference_is_that_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    assert (DOCS / "reference.md").read_text() == importlib.import_module("reference").render(), "run `make docs`"


def heading_anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", _FENCE.sub("", page.read_text())):
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if link.startswith("http") or path in MEASURED:
            continue
        if not path.exists() or (anchor and anchor not in heading_anchors(path)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


LIVING = [page for page in PAGES if page.parent.name != "design"]  # a dated note names files as they were then


@pytest.mark.parametrize("page", LIVING, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    named = set(re.findall(r"`((?:penstock|bench|tests|tools|examples)/[\w/.]+\.\w+)`", page.read_text()))
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title\n[here](#a-title) [there](#b) [file](missing.md) [page](page.md#a-title)")
    assert broken_links(page) == ["#b", "missing.md"]
