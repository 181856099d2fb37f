"""Who may take whose place; the way there over SSH is tested on real hosts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from roambench.contract.errors import ConfigError
from roambench.provision.certificates import BenchAuthority
from roambench.provision.facts import Facts
from roambench.provision.inventory import Bench, load_bench
from roambench.provision.replacements import Replacement, read_replacements, write_replacements
from roambench.provision.replacing import replace_board, take_back
from roambench.provision.subjects.settings import agent_settings

_BENCH = """
[controller]
address = "10.0.0.1"
[[hosts]]
name = "pi-[1:3]"
address = "10.0.0.1[1:3]"
meter = { driver = "none" }
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    path = tmp_path / "rig.toml"
    path.write_text(_BENCH)
    return load_bench(path)


def test_a_board_is_not_its_own_spare(bench: Bench):
    with pytest.raises(ConfigError, match="pi-1: is no spare"):
        replace_board(bench, bench.host("pi-1"), bench.host("pi-1"), lambda host, text: None)


def test_a_board_that_is_played_by_a_spare_is_none_itself(bench: Bench):
    write_replacements(bench.state_dir, {"pi-2": Replacement("pi-3")})
    with pytest.raises(ConfigError, match="pi-2: is no spare"):
        replace_board(bench, bench.host("pi-1"), bench.host("pi-2"), lambda host, text: None)


def test_taking_a_board_back_refuses_the_certificates_its_spare_had(bench: Bench):
    authority = BenchAuthority(bench.state_dir)
    authority.issue("pi-2")
    serial = authority.newest("pi-2")
    assert serial is not None
    write_replacements(bench.state_dir, {"pi-2": Replacement("pi-3")})
    assert take_back(bench, "pi-2") == "pi-3"
    assert read_replacements(bench.state_dir) == {}
    assert authority.revocations.serials() == {int(serial.serial, 16)}
    with pytest.raises(ConfigError, match="pi-2: no spare plays it"):
        take_back(bench, "pi-2")


def test_the_agent_of_a_spare_says_that_it_is_the_board_it_plays(bench: Bench):
    facts = cast(Facts, SimpleNamespace(vcgencmd=""))  # all that settings look at
    write_replacements(bench.state_dir, {"pi-2": Replacement("pi-3", "ab" * 16)})
    after = load_bench(bench.file)
    assert agent_settings(after, after.host("pi-2"), facts).machine_id == "ab" * 16
    assert agent_settings(after, after.host("pi-1"), facts).machine_id == ""
