"""A host's status is what its agent said, with nothing made up for what it did not say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from roambench.cli.main import main
from roambench.provision.agent_asks import ask_agent
from roambench.provision.bench import Bench, MeterEntry
from roambench.provision.claims import claim_by
from roambench.provision.facts import gather
from roambench.provision.preflight.agent_checks import CONFINE, UNCONFINED
from roambench.provision.preflight.facts import offset_words
from roambench.provision.preflight.host_clock import host_clock
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import open_link
from roambench.provision.status import HostStatus, controllers_meter, look_at, status_of, throttle_words
from ssh_server import SshServer, ssh_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path) as running:
        running.programs.mkdir()
        yield running


@pytest.fixture
def bench(tmp_path: Path, server: SshServer) -> Bench:
    return server.bench(tmp_path)


def _program(server: SshServer, name: str, script: str) -> None:
    (server.programs / name).write_text(f"#!/bin/sh\n{script}\n")
    (server.programs / name).chmod(0o755)


def test_every_value_of_the_answer_has_its_place():
    answer = {
        "version": "0.1.0",
        "build": "abc123",
        "session": "open",
        "run": "demo",
        "phase": "train",
        "host": {"temperature_c": 51.5, "throttle_bits": 0x50000},
        "disk": {"free_bytes": 3_000_000_000, "total_bytes": 30_000_000_000},
        "spool": {"controller": {"depth": 7}, "influxdb": {"depth": 3}},
        "unsent_runs": {"b": 10, "a": 20},
        "meter": {"state": "reading", "last": {"watts": 1.9, "age_s": 0.4}},
    }
    assert status_of(answer) == HostStatus(
        version="0.1.0",
        build="abc123",
        session="open",
        run="demo",
        phase="train",
        temperature_c=51.5,
        throttle_bits=0x50000,
        disk_free_bytes=3_000_000_000,
        disk_total_bytes=30_000_000_000,
        spool_depth=7,  # the slowest of those who read it
        unsent_runs=("a", "b"),
        meter_state="reading",
        watts=1.9,
        meter_age_s=0.4,
    )


def test_an_agent_that_says_less_or_nonsense_leaves_gaps_and_no_error():
    assert status_of({}) == HostStatus()
    nonsense = {
        "host": 5,
        "spool": {"controller": []},
        "meter": {"last": None, "state": "open"},
        "disk": None,
    }
    assert status_of(nonsense) == HostStatus(meter_state="open")


@pytest.mark.parametrize(("said", "unconfined"), [("false", True), ("true", False), ("null", False)])
def test_a_program_that_runs_unconfined_is_said_with_what_to_do(
    bench: Bench, server: SshServer, said: str, unconfined: bool
) -> None:
    about = server.root / "opt/roambench/programs/cc/about.json"
    server.install_agent(f"echo '{{\"confines_programs\": {said}}}'")
    with open_link(bench, bench.hosts[0]) as link:
        assert look_at(link, claim_by(bench)).next_action == ""  # it has no program
        about.parent.mkdir(parents=True)
        about.write_text('{"name": "mine"}')
        advice = look_at(link, claim_by(bench)).next_action
    assert advice == (f"{UNCONFINED}: {CONFINE}" if unconfined else "")


@pytest.mark.parametrize(
    ("login", "reason", "then"),
    [
        ("echo 'Welcome to pi'", "the login of root prints before every answer: Welcome to pi", "~/.bashrc"),
        ("echo 'not available'; exit 1", "the login of root runs no command: not available", "chsh -s"),
        ("exit 1", "the login of root runs no command: exit code 1", "chsh -s"),
    ],
)
def test_a_login_that_prints_or_refuses_by_itself_is_named(
    bench: Bench, server: SshServer, login: str, reason: str, then: str
) -> None:
    """A host's answers cannot be read then: that is no bug, and no clock's trouble."""
    server.install_agent("echo '{}'")
    command = server.folder / "below-root"
    command.write_text(command.read_text().replace("\n", f"\n{login}\n", 1))
    asks = (lambda link: host_clock(link, 1), gather, lambda link: ask_agent(link, "status"))
    with open_link(bench, bench.hosts[0]) as link:
        for ask in asks:
            with pytest.raises(HostError) as failed:
                ask(link)
            assert (failed.value.reason, then in failed.value.next_action) == (reason, True)


def test_a_clock_that_was_never_set_is_days_behind_and_not_a_trillion_milliseconds() -> None:
    assert offset_words(0.003, 0.02) == "+3 ± 20 ms"
    assert offset_words(-7200.0, 0.02) == "-7,200 s"
    assert offset_words(-1_796_099_588.1, 0.05) == "-20,788.2 days"


def test_throttle_bits_in_words():
    assert throttle_words(0) == throttle_words(None) == ""
    assert throttle_words(0x1) == "under-voltage now"
    assert throttle_words(0x50005) == "under-voltage now, throttled now"
    assert throttle_words(0x60000) == "frequency capped since boot, throttled since boot"


def test_a_meter_of_the_controller_is_said_to_be_there_or_not_and_is_not_opened(tmp_path: Path):
    def told(port: str) -> str:
        return controllers_meter(MeterEntry("smartpower3", port, "", 1.0, 0.0, "", False, host="controller"))

    device = tmp_path / "meter"
    device.mkdir()  # opening it would fail
    assert told(f"{device}?interval_ms=100") == f"read by the controller in a run: {device} is there"
    device.rmdir()
    assert told(str(device)) == f"read by the controller in a run: {device} is not there"
    assert told("192.168.4.1:23") == "read by the controller in a run"


@pytest.mark.parametrize("answer", [
    f'{{"disk": {{"free_bytes": {"9" * 400}}}}}',
    '{"host": {"temperature_c": 1e308}}',
    '{"meter": {"state": "reading", "last": {"watts": -1e300, "age_s": 0.1}}}',
])  # fmt: skip
def test_an_answer_of_numbers_that_no_agent_says_costs_its_own_row_alone(
    bench: Bench,
    server: SshServer,
    answer: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.install_agent(f"echo '{answer}'")
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as ended:
        main(["fleet", "status", str(bench.file)])
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert "ctl status: not what an agent says: a number beyond 64 bits; journalctl" in said.out
    assert "bug" not in said.out + said.err


@pytest.mark.parametrize("said", ["1e308", "nan", "9" * 400, "-5", "noon"])
def test_what_is_no_time_of_a_host_is_not_compared_with_this_machines(
    bench: Bench, server: SshServer, said: str
) -> None:
    _program(server, "date", f"echo {said}")
    with open_link(bench, bench.hosts[0]) as link, pytest.raises(HostError, match="pi-01: date: not a time"):
        host_clock(link, 1)


def test_facts_of_numbers_that_no_machine_has_are_the_hosts_error(bench: Bench, server: SshServer) -> None:
    memory = f's/"memory_bytes": [0-9]*/"memory_bytes": {"9" * 400}/'
    _program(server, "python3", f"{sys.executable} \"$@\" | sed '{memory}'")
    with open_link(bench, bench.hosts[0]) as link, pytest.raises(HostError, match="a number beyond 64 bits"):
        gather(link)
