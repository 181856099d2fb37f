"""Two benches that describe the same board, each with its own state folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest
from rich.console import Console
from typer.testing import CliRunner

from host_facts import FRESH
from roambench.cli.fleet.app import fleet_app as fleet
from roambench.contract.errors import HostsFailed
from roambench.experiment.sections import Experiment
from roambench.provision import layout
from roambench.provision.bench import Bench
from roambench.provision.claims import asked_first, barred, claim_by, ensure_ours, keep_off, read
from roambench.provision.facts import FileFacts
from roambench.provision.provisioning import perform
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink, on_hosts, open_link
from roambench.provision.status import look_at
from roambench.provision.subjects.claim import claim
from roambench.provision.wanted import Wanted
from roambench.runner.bench_options import BenchOptions
from roambench.runner.benches.bench_gate import claim_doubts
from roambench.runner.places.bench import BenchPlace
from ssh_server import SshServer, ssh_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(autouse=True)
def unclaimed(server: SshServer) -> None:
    file_on(server).unlink(missing_ok=True)


def file_on(server: SshServer) -> Path:
    return server.root / layout.CLAIM.lstrip("/")


def bench(server: SshServer, folder: Path, user: str, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The bench of an account with a bench file, and so a state folder, of its own."""
    monkeypatch.setenv("LOGNAME", user)
    (folder / user).mkdir()
    return server.bench(folder / user)


def wanted(mine: Bench) -> Wanted:
    return Wanted(mine, mine.hosts[0], None, None, claim=claim_by(mine))  # type: ignore[arg-type]


def claimed(link: HostLink) -> list[str]:
    """Do what provisioning does with the claim; the reasons of its steps."""
    kept = read(link)
    files = {layout.CLAIM: FileFacts(kept.sha256, 0o644, "root:root")}
    steps = list(claim(replace(FRESH, claim=kept.text, files=files), wanted(link.bench)))
    for step in steps:
        perform(link, step)
    return [step.reason for step in steps]


def provisioned_claim(mine: Bench) -> list[str]:
    with open_link(mine, mine.hosts[0]) as link:
        return claimed(link)


def test_a_board_that_one_bench_has_claimed_is_refused_to_another_and_taken_on_demand(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = tmp_path / "heard"
    status = json.dumps({"run": "demo-mohawk", "session": "dialling", "away_s": 720.0})
    server.install_agent(f'case "$2" in status) echo \'{status}\';; taken) echo "$3" >{heard};; esac')
    anns = bench(server, tmp_path, "ann", monkeypatch)
    assert provisioned_claim(anns) == ["belongs to no bench"]
    assert provisioned_claim(anns) == []
    first = file_on(server).read_text()

    bens = bench(server, tmp_path, "ben", monkeypatch)
    refused = (
        r"^pi-01: it belongs to bench bench of ann@\S+, since .*; run demo-mohawk is on it, without a "
        r"controller for 12 min; ask its owner, or take it \(roambench fleet provision --take\)"
    )
    with open_link(bens, bens.hosts[0]) as link:
        for text in (None, first):
            with pytest.raises(HostError, match=refused):
                keep_off(link, claim_by(bens), text)
    (one,) = on_hosts(bens, bens.hosts, asked_first(bens, lambda link: "rebooted", take=False))
    assert "belongs to bench bench of ann@" in one.reason
    assert list(barred(bens, bens.hosts)) == ["pi-01"]
    assert (file_on(server).read_text(), heard.exists()) == (first, False)

    assert barred(bens, bens.hosts, take=True) == {}
    assert heard.read_text().startswith("bench of ben@")
    assert json.loads(file_on(server).read_text())["owner"].startswith("ben@")
    assert file_on(server).stat().st_mode & 0o777 == 0o644
    assert "is taken from bench bench of ben@" in provisioned_claim(anns)[0]
    assert list(barred(bens, bens.hosts)) == ["pi-01"]


def test_a_run_without_a_preflight_and_one_that_goes_on_ask_whose_the_boards_are(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provisioned_claim(bench(server, tmp_path, "ann", monkeypatch))
    bens = bench(server, tmp_path, "ben", monkeypatch)
    waived = BenchOptions(preflight=False, unproven=True)
    for resumed in ("", "demo-mohawk"):
        place = BenchPlace(bens, bens.hosts, Experiment(), waived, resumed=resumed)
        refusal = pytest.raises(HostsFailed, match=r"^pi-01: it belongs to bench bench of ann@")
        with refusal as refused, place.held(Console(quiet=True)):
            pass
        assert refused.value.hosts == ("pi-01",)


def test_a_board_whose_sudo_wants_a_password_is_not_switched_and_a_run_says_that_it_was_not_asked(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bens = bench(server, tmp_path, "ben", monkeypatch)
    server.programs.mkdir(exist_ok=True)
    sudo = server.programs / "sudo"
    sudo.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2; exit 1\n")
    sudo.chmod(0o755)
    # root's login stands for one that needs sudo
    monkeypatch.setattr(paramiko.Transport, "get_username", lambda _: "ann")
    (error,) = barred(bens, bens.hosts).values()
    doubts = claim_doubts(bens, bens.hosts, Console(quiet=True))
    sudo.unlink()
    assert error.next_action.startswith("-K asks you for it")
    assert doubts == ["pi-01: whose board it is was not asked: ann may not sudo without a password"]


def test_a_command_as_root_asks_whose_the_board_is_and_one_of_the_login_user_does_not(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provisioned_claim(bench(server, tmp_path, "ann", monkeypatch))
    bens = str(bench(server, tmp_path, "ben", monkeypatch).file)
    asked = CliRunner().invoke(fleet, ["exec", bens, "--root", "--", "echo done"])
    assert (asked.exit_code, asked.stdout) == (1, "")
    assert "pi-01: it belongs to bench bench of ann@" in asked.stderr
    assert CliRunner().invoke(fleet, ["exec", bens, "--", "echo done"]).stdout == "pi-01: done\n"


@pytest.mark.parametrize("words", ["rollback BENCH", "power BENCH off", "certs rotate BENCH"])
def test_a_command_that_changes_a_board_asks_whose_it_is(
    words: str, server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provisioned_claim(bench(server, tmp_path, "ann", monkeypatch))
    bens = str(bench(server, tmp_path, "ben", monkeypatch).file)
    asked = CliRunner().invoke(fleet, words.replace("BENCH", bens).split())
    assert asked.exit_code == 1
    assert "it belongs to bench bench of ann@" in asked.stdout


def test_an_upgrade_that_failed_everywhere_is_called_so(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was titled "upgraded"."""
    file = bench(server, tmp_path, "ann", monkeypatch).file
    server.stop()
    asked = CliRunner().invoke(fleet, ["upgrade", str(file)])
    server.start()
    assert (asked.exit_code, asked.stdout.splitlines()[0].strip()) == (1, "bench: 1 failed")


def test_of_two_claims_at_the_same_moment_one_is_refused(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both had read that the board is free."""
    anns = bench(server, tmp_path, "ann", monkeypatch)
    (late,) = claim(FRESH, wanted(anns))
    provisioned_claim(bench(server, tmp_path, "ben", monkeypatch))
    with open_link(anns, anns.hosts[0]) as link, pytest.raises(HostError, match="at the same moment"):
        perform(link, late)
    assert "ben@" in file_on(server).read_text()


def test_what_is_no_claim_keeps_no_bench_off(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anns = bench(server, tmp_path, "ann", monkeypatch)
    file_on(server).parent.mkdir(parents=True, exist_ok=True)
    with open_link(anns, anns.hosts[0]) as link:
        for text in ("", "{", "[]", '{"bench_id": 1}', "x" * 9000, "  \xe9"):
            file_on(server).write_text(text, encoding="latin-1")
            ensure_ours(link, claim_by(anns), take=False)
            assert claimed(link) == ["belongs to no bench"]
            assert claimed(link) == []


def test_a_claim_of_a_hostile_host_is_printed_bounded(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_on(server).parent.mkdir(parents=True, exist_ok=True)
    values = {"bench_id": "x", "bench": "\x1b[2J" * 400, "owner": "\n", "since_s": 1e300}
    file_on(server).write_text(json.dumps(values))
    anns = bench(server, tmp_path, "ann", monkeypatch)
    (error,) = barred(anns, anns.hosts).values()
    assert error.reason.isprintable()
    assert len(error.reason) < 1000


def test_the_status_of_a_board_says_whose_it_is_and_which_disk_is_full(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.install_agent('echo \'{"disk": {"free_bytes": 1000}}\'')
    anns = bench(server, tmp_path, "ann", monkeypatch)
    provisioned_claim(anns)
    bens = bench(server, tmp_path, "ben", monkeypatch)
    with open_link(anns, anns.hosts[0]) as link:
        full, others = (look_at(link, claim_by(one)).next_action for one in (anns, bens))
    assert full.startswith("make room on /")
    assert "where /var/lib/roambench is (df -h" in full
    assert "it belongs to bench bench of ann@" in others
