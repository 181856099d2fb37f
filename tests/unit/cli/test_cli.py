import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from roambench.cli import main as cli
from roambench.cli.main import main
from roambench.contract.errors import TraceError
from roambench.contract.sources import own_code
from roambench.learning.models.catalogue import MODELS
from roambench.mobility.files import read_trace, write_trace
from roambench.mobility.readers import READERS
from small_traces import two_walks

CLI = [sys.executable, "-m", "roambench.cli.main"]
CHECKINS = """\
user,venue_id,lat,lon,time
7,cafe,40.7350,-73.9900,2012-04-17T00:05:00Z
7,park,40.7400,-73.9900,2012-04-17T01:05:00Z
9,cafe,40.7350,-73.9900,2012-04-17T01:10:00Z
9,cafe,forty,-73.9900,2012-04-17T01:20:00Z
"""


#: A command of roambench run to its end.
Run = Callable[..., subprocess.CompletedProcess[str]]


def roambench(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "160", "NO_COLOR": "1"}
    return subprocess.run(
        [*CLI, *arguments], capture_output=True, text=True, timeout=300, cwd=cwd, env=environment, check=False
    )


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """As `roambench`, but in this process: no second torch is read. Works in the test's folder."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        code = ended.value.code
        return subprocess.CompletedProcess(
            arguments, code if isinstance(code, int) else 1, *capsys.readouterr()
        )

    return run


def test_a_malformed_experiment_lists_all_its_mistakes_and_exits_2(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(
        'sede = 3\n[fleet]\nagents = -1\n[learning]\nbatch_size = "eight"\nmodel = "mohawk"\n'
        '[rounds]\ncosine = "flatt"\n'
    )
    done = roambench("run", "bad.toml", "--set", "fleet.aps=-1", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert sorted(done.stderr.splitlines()) == [
        "roambench: --set: fleet.aps: expected an integer ≥ 0, got -1",
        "roambench: bad.toml:1: sede: unknown key, did you mean seed?",
        "roambench: bad.toml:3: fleet.agents: expected an integer ≥ 0, got -1",
        'roambench: bad.toml:5: learning.batch_size: expected an integer ≥ 1, got "eight"',
        f'roambench: bad.toml:6: learning.model: expected one of {", ".join(MODELS.names())}, got "mohawk", '
        "did you mean mohawk_cnn?",
        'roambench: bad.toml:8: rounds.cosine: expected one of "flat", "printed", "per_entry", "per_column", '
        'got "flatt"',
    ]
    assert not (tmp_path / "runs").exists()


def cells(line: str) -> list[str]:
    """Of a table's row: two spaces and more part them."""
    return re.split(r" {2,}", line.strip())


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group below `command` by what is typed for it."""
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*words, name))


def test_help_shows_every_text_as_it_was_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Square brackets, too: a terminal's markup is made of them."""
    monkeypatch.setenv("COLUMNS", "2000")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 2000)
    lost = []
    for words, command in commands(cli.command()):
        with pytest.raises(SystemExit):
            main([*words, "--help"])
        shown = " ".join(capsys.readouterr().out.split())
        texts = [command.help or "", *(getattr(each, "help", None) or "" for each in command.params)]
        texts += [each.metavar or "" for each in command.params]
        for text in texts:
            paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
            lost += [(words, paragraph) for paragraph in paragraphs if paragraph not in shown]
    assert lost == []


@pytest.mark.parametrize("words", [("report",), ("compare",), ("data", "show"), ("run",), ("resume",)])
def test_pages_go_where_dash_o_says(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "│ --output " in line)
    assert " -o " in line


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_the_packages(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([option])
    assert ended.value.code == 0
    own = own_code()
    told = capsys.readouterr().out
    assert told.startswith(f"roambench {version('roambench')} (code {own['code']}")
    assert own.get("commit", "") in told


def test_a_file_of_the_other_kind_is_named_with_the_command_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files that the project publishes."""
    published = Path(__file__).parents[3] / "experiments"
    demo, grid = published / "demo.toml", published / "sweep_demo.toml"
    for words, told in (
        (("run", grid), f"sweep_demo.toml: a sweep file, not an experiment: roambench sweep {grid}"),
        (("data", "show", grid), f"sweep_demo.toml: a sweep file, not an experiment: roambench sweep {grid}"),
        (("sweep", demo), f"demo.toml: an experiment file, not a sweep: roambench run {demo}"),
    ):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        assert ended.value.code == 2
        assert capsys.readouterr().err == f"roambench: {told}\n"


def test_the_runs_of_a_large_sweep_are_counted_before_they_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text("[experiment]\n[grid]\nsystems = ['mohawk']\nseeds = 1000\n")
    with pytest.raises(SystemExit):
        main(["sweep", "s.toml", "--check"])
    assert capsys.readouterr().out.startswith("s.toml: 1,000 runs to check\nsystem=mohawk seed=42  open\n")


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("algorithms", {"mohawk", "hierfavg"}),
        ("datasets", {"digits", "mnist"}),
        ("models", {"mohawk_cnn", "mlp"}),
        ("meters", {"smartpower2", "replay"}),
        ("readers", {"checkins"}),
        ("generators", {"city"}),
    ],
)
def test_list_prints_every_row_with_a_description(
    kind: str, names: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["list", kind])
    assert ended.value.code == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert {row.split()[0] for row in rows} >= names
    for row in rows:
        assert len(row.split()) > 2, f"{row!r} has no description"
        assert "cannot be loaded" not in row


def test_list_refuses_a_kind_there_is_none_of(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["list", "planets"])
    assert ended.value.code == 2
    assert "algorithms" in capsys.readouterr().err


def test_checkins_become_a_trace_and_bad_rows_are_told(tmp_path: Path, command: Run) -> None:
    (tmp_path / "visits.csv").write_text(CHECKINS)
    words = ["trace", "import", "checkins", "visits.csv", "-o", "t.parquet", "--box", "40.7350,-73.9900,5000"]
    words += ["--from", "2012-04-17", "--steps", "2", "--aps", "1", "--seed", "3"]
    done = command(*words)
    assert done.returncode == 0
    assert done.stdout.startswith("t.parquet: 2 steps, 2 devices, 3 fixes, content hash ")
    assert "1 of 4 rows are malformed" in done.stderr
    assert "visits.csv:5: " in done.stderr
    trace = read_trace(tmp_path / "t.parquet")
    assert trace.start_utc_s == 1334620800
    assert trace.step.tolist() == [0, 1, 1]
    strict = command(*words, "--strict")
    assert strict.returncode == 2
    assert "--strict" in strict.stderr


def test_mistakes_in_import_options_come_all_at_once(command: Run) -> None:
    done = command(
        *("trace", "import", "checkin", "visits.csv", "-o", "t.parquet", "--box", "1,2"),
        *("--from", "yesterday", "--columns", "device"),
    )
    assert done.returncode == 2
    readers = ", ".join(READERS.names())
    assert done.stderr.splitlines() == [
        f'roambench: reader: expected one of {readers}, got "checkin", did you mean checkins?',
        "roambench: --columns device: expected FIELD=COLUMN, for example device=user_id",
        "roambench: --box 1,2: expected LAT,LON,SIDE_M, for example 40.7350,-73.9900,17500, "
        "or X,Y,WIDTH,HEIGHT in metres",
        "roambench: --from yesterday: expected an ISO 8601 time, for example 2012-04-17T00:00Z, or seconds",
    ]


def test_stats_prints_the_trace_beside_the_paper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.parquet"
    found = write_trace(two_walks(), path)
    with pytest.raises(SystemExit) as ended:
        main(["trace", "stats", str(path)])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert found in out
    # One model of bob is there at t = 2 for MOHAWK with k2 = 5; nobody is seen in two steps running.
    rows = [cells(line) for line in out.splitlines()]
    assert ["MOHAWK k2 = 5", "0.5", "2", "50.0%"] in rows
    assert next(row[1:3] for row in rows if row[0].startswith("most devices")) == ["76", "2"]


def test_show_prints_who_is_where_at_a_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.parquet"
    write_trace(two_walks(), path)
    with pytest.raises(SystemExit):
        main(["trace", "show", str(path)])
    assert "written by hand" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["trace", "show", str(path), "--step", "0"])
    rows = [cells(line) for line in capsys.readouterr().out.splitlines() if "AP" in line]
    assert rows[1:] == [["ann", "AP0", "0.030", "0.040", "50"], ["bob", "AP1", "0.900", "0.000", "100"]]
    with pytest.raises(SystemExit) as ended:
        main(["trace", "show", str(path), "--step", "3"])
    assert ended.value.code == 2
    assert "expected 0..2" in capsys.readouterr().err


def test_a_generator_is_named_seeded_and_given_parameters(tmp_path: Path, command: Run) -> None:
    hashes = []
    for seed, name in ((1, "a.parquet"), (1, "b.parquet"), (2, "c.parquet")):
        done = command(
            *("trace", "generate", "city", "-o", name, "--seed", str(seed)),
            *("--set", "devices=20", "--set", "steps=24"),
        )
        assert done.returncode == 0, done.stderr
        hashes.append(done.stdout.split()[-1])
    assert hashes[0] == hashes[1] != hashes[2]
    trace = read_trace(tmp_path / "a.parquet")
    assert (trace.steps, len(trace.device_names)) == (24, 20)


def test_a_generators_unknown_parameter_is_a_mistake(tmp_path: Path, command: Run) -> None:
    done = command("trace", "generate", "city", "-o", "t.parquet", "--set", "devicez=20")
    assert done.returncode == 2
    assert done.stderr == "roambench: --set devicez: unknown key, did you mean devices?\n"
    assert not (tmp_path / "t.parquet").exists()


def test_an_error_is_its_lines_and_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["trace", "stats", str(tmp_path / "no.parquet")])
    assert ended.value.code == TraceError.exit_code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"roambench: {tmp_path}/no.parquet: no such trace file\n"


def test_as_many_agents_as_asked_for_or_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a trace with 20 devices. A negative number is a mistake of --agents, not of --set."""
    (tmp_path / "e.toml").write_text(
        'name = "e"\nsystems = ["mohawk"]\ntrace = { steps = 2, parameters = { devices = 20 } }\n'
    )

    def ended(*words: str) -> int | str | None:
        runs_dir = ("--fleet", "rehearsal", "--runs-dir", str(tmp_path / "runs"))
        with pytest.raises(SystemExit) as end:
            main(["run", str(tmp_path / "e.toml"), *runs_dir, *words])
        return end.value.code

    assert ended("--agents", "5000") == 2
    told = "fleet.agents: expected at most 20, the devices of the trace (0 for all of them), got 5,000"
    assert capsys.readouterr().err == f"roambench: {told}\n"
    assert ended("--agents", "-3", "--name", 'a "b"') == 2
    assert capsys.readouterr().err.splitlines() == [
        "roambench: --name: name: expected letters, digits, dot, dash and underscore, at most 64, "
        'got "a \\"b\\""',
        "roambench: --agents: fleet.agents: expected an integer ≥ 0, got -3",
    ]
    assert not (tmp_path / "runs").exists()
    assert ended("--agents", "0") == 0
    assert "fleet.agents = 0: all 20 devices of the trace" in capsys.readouterr().out
    names = json.loads((tmp_path / "runs" / "e" / "latest" / "mohawk" / "run.json").read_text())[
        "device_names"
    ]
    assert len(names) == 20


def test_ctrl_c_exits_130_without_a_traceback(tmp_path: Path) -> None:
    fifo = tmp_path / "slow.csv"
    os.mkfifo(fifo)  # nobody writes: the command waits in open() until it is interrupted
    command = [*CLI, "trace", "import", "checkins", str(fifo), "-o", str(tmp_path / "t.parquet")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        deadline_s = time.monotonic() + 30
        while "fifo" not in _waiting_in(process.pid) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in errors


def _waiting_in(pid: int) -> str:
    """The kernel function the process sleeps in: wait_for_partner is a fifo's open."""
    try:
        where = Path(f"/proc/{pid}/wchan").read_text()
    except OSError:
        return ""
    return "fifo" if where in ("wait_for_partner", "fifo_open") else where


def test_report_json_of_no_run_is_an_error_not_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["report", str(tmp_path / "nothing"), "--json"])
    assert ended.value.code == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "no such folder" in captured.err
    assert json.dumps("") not in captured.err


def test_a_shell_can_complete_what_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"_ROAMBENCH_COMPLETE": "complete_bash", "COMP_WORDS": "roambench fleet prov", "COMP_CWORD": "2"}
    told = subprocess.run(
        [sys.executable, "-m", "roambench.cli.main"],
        env={**os.environ, **words},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told.split() == ["provision"]
