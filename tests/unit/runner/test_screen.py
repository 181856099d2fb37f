"""How much a command tells (-q, -v), and in which parts."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from roambench.cli.main import main
from roambench.runner.screen import Verbosity, progress_screen, tell, warn

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
DEMO, SWEEP = str(EXPERIMENTS / "demo.toml"), str(EXPERIMENTS / "sweep_demo.toml")
FOUND = "In one run each, hierfavg wasted 23 % of its trainings, mohawk 7 %."


def told(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Lines that a command prints on standard output."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    return capsys.readouterr().out.splitlines()


def test_a_run_says_its_four_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = told(capsys, "run", DEMO, "--fleet", "rehearsal")
    assert [line for line in lines if line.startswith("[")] == [
        f"[1/4] check {DEMO}: mohawk, hierfavg on rehearsal",
        "[2/4] prepare: movement and data",
        "[3/4] run mohawk: system 1 of 2",
        "[3/4] run hierfavg: system 2 of 2",
        "[4/4] compare 2 runs",
    ]


def test_the_first_sign_of_life_comes_before_anything_heavy_is_read(tmp_path: Path) -> None:
    """What reads torch takes seconds: nobody waits for it before a line is there."""
    code = (
        "import sys\n"
        "class Said(Exception): pass\n"
        "from roambench.runner import screen\n"
        "def stop(console, number, of, what):\n"
        "    heavy = {'torch', 'scipy.linalg', 'scipy.sparse', 'scipy.special', 'pyarrow', 'grpc'}\n"
        "    print(f'[{number}/{of}]', sorted(heavy & sys.modules.keys()))\n"
        "    raise SystemExit(0)\n"
        "screen.phase = stop\n"
        "from roambench.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    for words, first in (
        (("run", DEMO), "[1/4] []"),
        (("demo",), "[1/4] []"),
        (("sweep", SWEEP), "[1/3] []"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == first


@pytest.mark.parametrize("option", ["-q", "--quiet"])
def test_quiet_leaves_the_finding_and_where_the_report_is(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found, report = told(
        capsys, "run", DEMO, "--fleet", "rehearsal", option
    )  # a routine note is for the page
    assert found == FOUND
    assert report.startswith("report: runs/demo/")
    assert Path(report.removeprefix("report: ")).is_file()


def test_a_quiet_sweep_leaves_its_table_and_where_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(
        f'experiment = "{DEMO}"\nfleet = "rehearsal"\nmetrics = ["wasted_share"]\n'
        '[grid]\nsystems = ["mohawk", "hierfavg"]\n'
    )
    head, mohawk, hierfavg, _, direction, *files = told(capsys, "sweep", "s.toml", "-q")
    assert direction == "↓ lower is better"
    assert head.split()[:2] == ["system", "runs"]
    assert (mohawk.split()[0], hierfavg.split()[0]) == ("mohawk", "hierfavg")
    assert files == [*(f"runs/s/table.{kind}" for kind in ("parquet", "csv", "json")), "runs/s/runs.csv"]
    lines = told(capsys, "sweep", "s.toml")
    assert [line.partition(" ")[0] for line in lines if line.startswith("[")] == ["[1/3]", "[2/3]", "[3/3]"]


def test_verbose_adds_every_order_and_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    usual = told(capsys, "run", DEMO, "--fleet", "rehearsal")
    lines = told(capsys, "run", DEMO, "--fleet", "rehearsal", "-v")
    assert "mohawk step 1 device 0 train: done" in lines
    assert "mohawk step 1 device 0 train: done" not in usual
    # What a line of the step counts, -v names: 5 trainings at the first step.
    step = next(line for line in usual if line.startswith("mohawk") and " 1/8 " in line)
    trained = [line for line in lines if line.startswith("mohawk step 1 ") and " train: " in line]
    assert f"orders  {len(trained)}/{len(trained)} " in step


def test_quiet_and_verbose_contradict_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", DEMO, "-q", "-v"])
    assert ended.value.code == 2
    assert "expected one of --quiet and --verbose" in capsys.readouterr().err


def test_libraries_log_to_the_screen_for_verbose_only_and_no_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = logging.getLogger("paramiko.transport")
    logger.info("nobody asked")
    try:
        tell(Verbosity.ALL)
        try:
            raise OSError("gone")
        except OSError:
            logger.info("Connected to %s", "pi-01", exc_info=True)
    finally:
        tell(Verbosity.USUAL)
    logger.info("nobody asked again")
    assert capsys.readouterr().err == "paramiko.transport: Connected to pi-01\n"


def test_a_warning_is_told_to_who_asked_for_little(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        tell(Verbosity.LITTLE)
        console = progress_screen()
        console.print("how it goes")
        warn(console, "the meter [x] is not calibrated")
    finally:
        tell(Verbosity.USUAL)
    assert capsys.readouterr().out == "the meter [x] is not calibrated\n"
