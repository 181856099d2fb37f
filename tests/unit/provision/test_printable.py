"""What a board that was taken over says does not steer the terminal of whoever asks it."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.cli.main import main
from roambench.contract.printable import printable
from roambench.provision.checks import Check, CheckVerdict, HostChecks, Preflight
from roambench.provision.ssh.host_error import HostError
from roambench.provision.status import status_of
from ssh_server import ssh_server

CLEARS = "\x1b[2J"


def test_letters_of_any_language_stay_and_control_characters_do_not() -> None:
    assert printable("23 °C, größer\tals\n日本") == "23 °C, größer als 日本"
    assert printable(f"{CLEARS}gone\r\x07\x9b") == "?[2Jgone???"


def test_reasons_checks_and_states_are_printable() -> None:
    assert str(HostError("pi-01", f"{CLEARS}oops", "again")) == "pi-01: ?[2Joops; again"
    checks = HostChecks("pi-01", (Check("agent", CheckVerdict.FAIL, f"build {CLEARS}", f"run {CLEARS}"),))
    assert Preflight("small", 0.0, (checks,)).lines() == ["pi-01: agent: build ?[2J, expected run ?[2J"]
    found = status_of({"run": CLEARS, "meter": {"state": CLEARS}, "unsent_runs": {CLEARS: 1}})
    assert (found.run, found.meter_state, found.unsent_runs) == ("?[2J", "?[2J", ("?[2J",))


def test_what_a_command_prints_is_printable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ssh_server(tmp_path) as server:
        bench = server.bench(tmp_path)
        with pytest.raises(SystemExit) as ended:
            main(["fleet", "exec", str(bench.file), "--", r"printf '\033[2Ja\nb\n'"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == "pi-01: ?[2Ja\npi-01: b\n"
