"""The pictures of the documentation are those that their texts describe."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module("pictures")


def test_the_pictures_are_those_of_their_texts(pictures: ModuleType) -> None:
    wanted = pictures.written()
    assert {path: path.read_text() for path in pictures.FOLDER.glob("*.svg")} == wanted, "run tools/pictures.py"
    assert {path.name for path in wanted} == {"architecture.svg", "epoch.svg"}


def test_a_picture_shows_its_words_and_arrows(pictures: ModuleType) -> None:
    text = 'title A & B\nbox a 0 0 "Left" "one line"\nbox b 1 0 "Right"\narrow a.right -> b.left "rows"\n'
    tree = ElementTree.fromstring(pictures.draw(pictures.read(text)))
    words = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert words == ["A & B", "Left", "one line", "Right", "rows"]
    (line,) = (node for node in tree.iter("{http://www.w3.org/2000/svg}path") if node.get("marker-end"))
    (start, height), (end, same) = (point[1:].split() for point in line.attrib["d"].replace("L", "|L").split(" |"))
    assert height == same
    assert float(start) < float(end)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('box a 0 0 "A"\ncircle b', "line 2: not an item"),
        ('box a 0 0 "A heading that is much wider than its box"', "more text than its box"),
        ('box a 0 0 "A"\nbox b 1 1 "B"\narrow a.right -> b.left', "not opposite"),
        ('box a 0 0 "A"\narrow a.right -> c.left', "no side of a box: c.left"),
    ],
)
def test_a_text_that_cannot_be_drawn_is_refused(pictures: ModuleType, text: str, wanted: str) -> None:
    with pytest.raises(pictures.PictureError, match=wanted):
        pictures.draw(pictures.read(text))
