"""`roambench fleet fetch` over a real SSH server: what a host gave counts, whatever fails after."""

from __future__ import annotations

import errno
import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roambench.cli.main import main
from roambench.contract import whole_file
from roambench.provision import journal_lines
from roambench.provision.bench import Bench
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink
from roambench.runs.folder import RunFolder
from small_runs import a_run
from ssh_server import SshServer, ssh_server

EVENT = {"run": "demo", "spool_uuid": "ab" * 16, "seq": 1, "kind": 3, "payload": "bm90aGluZw=="}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path) as running:
        yield running


@pytest.fixture
def bench(tmp_path: Path, server: SshServer) -> Bench:
    return server.bench(tmp_path)


@pytest.fixture(autouse=True)
def agent(tmp_path: Path, server: SshServer) -> None:
    """Answers as one that is in no run and has a record of the run demo, until it is told to forget it."""
    have, none = tmp_path / "have", tmp_path / "none"
    have.write_text(json.dumps(EVENT) + "\n" + json.dumps({"end": 1, "device": "pi-01"}) + "\n")
    none.write_text(json.dumps({"end": 0, "device": "pi-01"}) + "\n")
    server.install_agent(
        'case $2 in\nstatus) echo \'{"run": ""}\';;\n'
        f"spool-export) cat {have};;\nspool-forget) mv {none} {have}; echo '{{}}';;\nesac"
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "demo"
    a_run(path, "bench", run_id="demo").close()
    return path


def fetch(bench: Bench, run: Path) -> object:
    with pytest.raises(SystemExit) as ended:
        main(["fleet", "fetch", str(bench.file), str(run)])
    return ended.value.code


def nothing_said(link: HostLink, lines: int, since: str = "") -> list[str]:
    raise HostError(link.host.name, "connection lost")


def interrupted(link: HostLink, lines: int, since: str = "") -> list[str]:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("log", "code"), [(nothing_said, 0), (interrupted, 130)])
def test_the_ledger_is_computed_also_where_what_follows_the_records_fails(
    bench: Bench, run: Path, monkeypatch: pytest.MonkeyPatch, log: Callable[..., list[str]], code: int
) -> None:
    with monkeypatch.context() as failing:
        failing.setattr(journal_lines, "journal", log)
        assert fetch(bench, run) == code
    with RunFolder.open(run) as folder:
        assert len(folder.records.dead_letters()) == 1
    assert (run / "ledger.parquet").exists() is (code == 0)
    assert fetch(bench, run) == 0  # the host has forgotten its copy
    assert (run / "ledger.parquet").exists()


def test_a_run_that_cannot_be_had_keeps_no_other_ones_on_the_host(
    bench: Bench,
    server: SshServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for run, end in (("bad", {"end": 7}), ("good", {"end": 1, "device": "pi-01", "malformed": 2})):
        event = {**EVENT, "run": run}
        (tmp_path / run).write_text(json.dumps(event) + "\n" + json.dumps(end) + "\n")
    server.install_agent(
        f"cd {tmp_path}\ncase $2 in\n"
        'status) echo \'{"run": "", "unsent_runs": {"bad": 1, "good": 1}}\';;\n'
        "spool-export) cat $3;;\nspool-forget) rm $3; echo '{}';;\nesac"
    )
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as ended:
        main(["fleet", "fetch", str(bench.file)])
    assert ended.value.code == 1
    said = capsys.readouterr().out
    assert "bad: spool-export: 1 records of None, not 7; try again" in said
    assert "(2 malformed lines left out)" in said
    saved = bench.state_dir / "fetched" / "pi-01" / f"{b'good'.hex()}.jsonl.gz"
    assert json.loads(gzip.decompress(saved.read_bytes()).splitlines()[0])["run"] == "good"
    assert ((tmp_path / "bad").exists(), (tmp_path / "good").exists()) == (True, False)


def test_a_second_fetch_of_a_run_leaves_what_the_first_one_saved_and_adds_to_it(
    bench: Bench, server: SshServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The host has forgotten the first ones: there is no other copy."""
    server.install_agent(
        f"cd {tmp_path}\ncase $2 in\n"
        'status) echo \'{"run": "", "unsent_runs": {"demo": 1}}\';;\n'
        "spool-export) cat export;;\nspool-forget) touch forgotten; echo '{}';;\nesac"
    )
    saved = bench.state_dir / "fetched" / "pi-01" / f"{b'demo'.hex()}.jsonl.gz"

    def fetched(*events: dict[str, object]) -> list[dict[str, object]]:
        end = {"end": len(events), "device": "pi-01", "malformed": 1}
        (tmp_path / "export").write_text("".join(json.dumps(line) + "\n" for line in (*events, end)))
        (tmp_path / "forgotten").unlink(missing_ok=True)
        with pytest.raises(SystemExit):
            main(["fleet", "fetch", str(bench.file)])
        return [json.loads(line) for line in gzip.decompress(saved.read_bytes()).splitlines()]

    first, second, third = ({**EVENT, "seq": seq} for seq in (1, 2, 3))
    fetched(first, second)
    *records, end = fetched(second, third, {**third, "spool_uuid": "cd" * 16}, {**third, "board": "pi-02"})
    assert [(one["spool_uuid"][:2], one["seq"], one["board"]) for one in records] == [
        ("ab", 1, ""), ("ab", 2, ""), ("ab", 3, ""), ("cd", 3, ""), ("ab", 3, "pi-02"),
    ]  # fmt: skip
    assert end == {"end": 5, "device": "pi-01", "malformed": 2}
    before = saved.read_bytes()
    capsys.readouterr()
    fetched({**first, "payload": "b3RoZXI="})
    assert "has another record under the number 1; move that file away" in " ".join(
        capsys.readouterr().out.split()
    )
    assert saved.read_bytes() == before
    assert not (tmp_path / "forgotten").exists()
    saved.write_bytes(before[:40])  # what a disk that failed left of it
    with pytest.raises(EOFError):
        fetched(first)
    assert saved.read_bytes() == before[:40]
    assert not (tmp_path / "forgotten").exists()


def test_a_full_disk_of_this_machine_is_no_hosts_trouble_and_no_bug(
    bench: Bench,
    server: SshServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.install_agent(
        f"cd {tmp_path}\ncase $2 in\n"
        'status) echo \'{"run": "", "unsent_runs": {"demo": 1}}\';;\n'
        "spool-export) cat have;;\nspool-forget) touch forgotten; echo '{}';;\nesac"
    )

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(whole_file, "sync", full)
    monkeypatch.setenv("COLUMNS", "500")
    with pytest.raises(SystemExit) as ended:
        main(["fleet", "fetch", str(bench.file)])
    assert ended.value.code == 1
    said = capsys.readouterr().out
    file = bench.state_dir / "fetched" / "pi-01" / f"{b'demo'.hex()}.jsonl.gz"
    assert f"this machine, not the host, fails: No space left on device ({file})" in said
    assert "free some space" in said
    assert "bug" not in said
    assert not (tmp_path / "forgotten").exists()
