"""The commands that prove and share a bench, as a user calls them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from benches import bench_of
from roambench.cli.main import main
from roambench.contract.errors import FleetError
from roambench.provision.bench import Bench
from roambench.provision.leases.holding import LEASE_VARIABLE, holding
from ssh_server import SshServer, free_port


def bench_at(folder: Path, *ports: int, key: str = "") -> Bench:
    return bench_of(
        folder,
        "".join(
            f'[[hosts]]\nname = "pi-0{n}"\naddress = "127.0.0.1"\nssh_user = "root"\nssh_port = {port}\n'
            + (f'ssh_key = "{key}"\n' if key else "")
            + 'meter.driver = "none"\n'
            for n, port in enumerate(ports, start=1)
        ),
    )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return bench_at(tmp_path, 1)


def call(*words: object) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


def test_preflight_shows_a_row_per_host_what_to_do_and_ends_with_1(
    server: SshServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = bench_at(tmp_path, server.port, free_port(), key=str(server.client_key))
    assert call("fleet", "preflight", bench.file, "--no-smoke") == 1
    shown = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if re.match(r"pi-0\d +\w", line)}
    assert rows["pi-02"] == ["FAIL"]
    assert rows["pi-01"][0] == "pass"
    assert len(rows["pi-01"]) == 18
    assert re.search(r"pi-02: SSH: .* refuses: is its SSH server enabled and on this port\?", shown)
    assert "pi-01: agent: " in shown
    assert shown.rstrip().endswith("2 of 2 hosts failed: pi-01, pi-02")
    assert call("fleet", "preflight", bench.file, "--only", "pi-02", "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["passed"] is False
    (host,) = document["hosts"]
    assert (host["host"], host["checks"][0]["name"], host["checks"][0]["verdict"]) == ("pi-02", "SSH", "fail")


def test_who_tells_whose_turn_it_is(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    main_ok("fleet", "who", bench.file)
    assert capsys.readouterr().out == "bench is free\n"
    with holding(bench, "run demo", print):
        main_ok("fleet", "who", bench.file)
        said = capsys.readouterr().out
        assert re.fullmatch(rf"bench: .*@.* \(pid {os.getpid()}\): run demo, asked 0 min ago\n", said)
        main_ok("fleet", "who", bench.file, "--json")
        document = json.loads(capsys.readouterr().out)
        assert (document["holder"]["pid"], document["waiting"]) == (os.getpid(), [])


def main_ok(*words: object) -> None:
    assert call(*words) == 0


def test_a_reservation_is_made_seen_and_given_back(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    main_ok("fleet", "lease", bench.file, "--hours", "3", "--purpose", "tables")
    assert "bench is yours for 3 h" in capsys.readouterr().out
    with holding(bench, "run demo", print):  # one's own runs go on under it
        main_ok("fleet", "who", bench.file)
    said = capsys.readouterr().out
    assert re.search(r", who reserved it until \w{3} \d{4}-\d\d-\d\d \d\d:\d\d \S+: tables\n", said)
    assert "runs now: " in said
    main_ok("fleet", "release", bench.file)
    assert "ended: " in capsys.readouterr().out
    main_ok("fleet", "release", bench.file)
    assert capsys.readouterr().out == "bench is free already\n"


def test_a_bench_that_is_used_cannot_be_reserved_and_only_force_ends_it(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEASE_VARIABLE, "")  # so that the end of the test takes it away
    context = holding(bench, "run demo", print)
    context.__enter__()
    monkeypatch.delenv(LEASE_VARIABLE)
    assert call("fleet", "lease", bench.file) == 1
    assert "bench: used by " in capsys.readouterr().err
    assert call("fleet", "release", bench.file) == 1
    assert "you have reserved nothing; held by " in capsys.readouterr().err
    main_ok("fleet", "release", bench.file, "--force")
    assert "ended: " in capsys.readouterr().out
    main_ok("fleet", "who", bench.file)
    assert capsys.readouterr().out == "bench is free\n"
    monkeypatch.setenv(LEASE_VARIABLE, "0 none")
    with pytest.raises(FleetError, match="bench: the lease was lost"):  # whose run it was hears of it
        context.__exit__(None, None, None)


def test_a_purpose_in_brackets_is_shown_as_it_was_written(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("fleet", "lease", bench.file, "--purpose", "[bold] or [/run]?") == 0
    assert call("fleet", "status", bench.file) == 1  # nobody answers there
    assert ": [bold] or [/run]?" in " ".join(capsys.readouterr().out.split())
