from __future__ import annotations

import sys

import pytest

from roambench.contract.errors import ConfigError
from roambench.mobility.catalogue import LateTable
from roambench.mobility.readers.fixes import Reader

TABLE = LateTable(
    what="trace reader",
    group="roambench.readers",
    row=Reader,
    own={"checkins": "roambench.mobility.readers.checkins:CHECKINS"},
)


@pytest.fixture
def third_party(tmp_path, monkeypatch):
    """A real installed distribution (a folder with its metadata on the path) that adds three readers."""
    folder = tmp_path / "thirdparty-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: thirdparty\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[roambench.readers]\nsound = thirdparty_reader:SOUND\nwrong = thirdparty_reader:WRONG\n"
        "broken = thirdparty_reader:ABSENT\ncheckins = thirdparty_reader:SOUND\n"
    )
    (tmp_path / "thirdparty_reader.py").write_text(
        "from roambench.mobility.readers.fixes import Reader\n"
        "SOUND = Reader('sound', 'a format', lambda lines, options: None)\nWRONG = 7\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("thirdparty_reader", None)


def test_another_distribution_adds_rows_through_entry_points(third_party):
    assert TABLE.names() == ("broken", "checkins", "sound", "wrong")
    assert TABLE.load("sound").summary == "a format"


def test_our_own_row_wins_over_one_of_the_same_name(third_party):
    assert TABLE.load("checkins").name == "checkins"


def test_a_row_that_does_not_load_or_is_of_another_type_says_whose_it_is(third_party):
    with pytest.raises(ConfigError, match=r"'broken' \(thirdparty thirdparty_reader:ABSENT\) does not load"):
        TABLE.load("broken")
    with pytest.raises(ConfigError, match="'wrong': expected a Reader, got int"):
        TABLE.load("wrong")


def test_names_are_told_without_importing_anything(third_party):
    sys.modules.pop("thirdparty_reader", None)
    TABLE.names()
    assert "thirdparty_reader" not in sys.modules
