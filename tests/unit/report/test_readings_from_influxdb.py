"""The same run read from its folder and from a real InfluxDB: the same report, to the last digit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import influx_runs
from influx_servers import Influxd, Shim, free_port, running
from roambench.cli.main import app
from roambench.contract.errors import RoambenchError
from roambench.contract.records import RecordKind
from roambench.emulation.electric.power import IDLE, Activity
from roambench.emulation.virtual import emulate
from roambench.report.report import report
from roambench.runner.influx_live import write_joules
from roambench.runner.readings_source import span_of
from roambench.runs.folder import RunFolder
from roambench.spool.influx_settings import InfluxSettings

pytestmark = pytest.mark.lengthy

#: As the hand-made run of conftest has it, in seconds from its start, the emulated board works.
SCHEDULE = (
    (0.0, IDLE),
    (110.0, Activity(busy_cores=0.3, rx_mbit_s=10.0)),
    (114.0, Activity(busy_cores=4.0)),
    (134.0, IDLE),
    (150.0, Activity(busy_cores=0.3, tx_mbit_s=10.0)),
    (154.0, IDLE),
)


#: Nobody listens there.
AWAY = ("--readings", "influxdb", "--influx-url", "http://127.0.0.1:1", "--influx-db", "b")


@pytest.fixture
def emulated(hand_made: Callable[..., Path], influxd: Influxd) -> Path:
    """A run folder with emulated meters' readings, and the same records in the database `bench`."""
    run = hand_made("emulated", readings=False)
    with RunFolder.open(run, write=True) as folder:
        for seed, name in enumerate(folder.info.device_names):
            readings = emulate(SCHEDULE, 210.0, seed).readings()
            records = [(seq, RecordKind.READING, one.to_bytes()) for seq, one in enumerate(readings, 100)]
            folder.records.insert(name, "spool", records)
            assert len(records) > 200
    influxd.create_database("bench")
    influx_runs.send(influx_runs.lines(influx_runs.drained(run), "emulated"), influxd, "bench")
    return run


def asked(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def failed(*words: object) -> str:
    """What a user is told when it does not work."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert isinstance(result.exception, RoambenchError)
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_the_report_is_equal_to_the_last_digit(emulated: Path, influxd: Influxd):
    of_folder = asked("report", emulated, "--json")
    energy = json.loads(of_folder)["runs"][0]["energy"]
    assert energy["phases"]["train"]["gross"]["joules"] > 100.0  # two boards, 20 s, 4 cores: 5 W
    influx = ("--readings", "influxdb", "--influx-url", influxd.url, "--influx-db", "bench")
    assert asked("report", emulated, "--json", *influx) == of_folder


def test_compare_is_equal_to_the_last_digit(emulated: Path, influxd: Influxd):
    of_folder = asked("compare", emulated, "--json")
    assert json.loads(of_folder)["runs"]
    influx = ("--readings", "influxdb", "--influx-url", influxd.url, "--influx-db", "bench/autogen")
    assert asked("compare", emulated, "--json", *influx) == of_folder


def test_the_database_is_really_asked(emulated: Path, influxd: Influxd):
    """Without its records nothing was measured: the folder does not step in."""
    influxd.create_database("empty")
    influx = ("--readings", "influxdb", "--influx-url", influxd.url, "--influx-db", "empty")
    assert json.loads(asked("report", emulated, "--json", *influx))["runs"][0]["energy"] is None


@pytest.fixture
def guarded(influxd: Influxd, tmp_path: Path) -> Iterator[Shim]:
    """The same database behind a door that wants a token."""
    shim = Shim(tmp_path / "shim", free_port(), influxd, token="may-read")
    with running(shim):
        yield shim


def test_the_runs_own_section_and_a_token_lead_to_the_database(
    emulated: Path, guarded: Shim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("INFLUX_TOKEN", raising=False)
    monkeypatch.delenv("INFLUX_READ_TOKEN", raising=False)
    of_folder = report([emulated]).json()
    config = json.loads((emulated / "experiment.json").read_text())
    config["influxdb"] = {"url": guarded.url, "bucket": "bench"}
    (emulated / "experiment.json").write_text(json.dumps(config))
    words = ("report", emulated, "--json", "--readings", "influxdb")

    (tmp_path / "token").write_text("may-read\n")
    assert asked(*words, "--influx-token-file", tmp_path / "token") == of_folder
    monkeypatch.setenv("INFLUX_TOKEN", "may-only-write")
    assert "refused us (401)" in failed(*words)
    monkeypatch.setenv("INFLUX_READ_TOKEN", "may-read")
    assert asked(*words) == of_folder
    # What a run leaves behind may be given away: no token is in it.
    for path in (path for path in emulated.rglob("*") if path.is_file()):
        assert b"may-read" not in path.read_bytes()


def test_the_section_of_the_runs_bench_leads_to_the_database(emulated: Path, influxd: Influxd):
    values = {"url": influxd.url, "bucket": "bench", "org": "", "api": "v1"}
    (emulated / "bench.json").write_text(json.dumps({"file": "lab.toml", "influxdb": values}))
    assert asked("report", emulated, "--json", "--readings", "influxdb") == report([emulated]).json()


def test_joules_by_phase_are_there_for_queries_when_a_run_has_ended(emulated: Path, influxd: Influxd):
    settings = InfluxSettings(influxd.url, "bench", api="v1", token_env="")
    with RunFolder.open(emulated) as folder:
        for _ in range(2):  # it may be resumed and end again
            write_joules(folder, settings, "lab", pytest.fail)
    query = 'SELECT sum("gross_j") FROM "energy" WHERE "bench" = \'lab\' GROUP BY "phase"'
    phases = json.loads(report([emulated]).json())["runs"][0]["energy"]["phases"]
    assert {row["phase"]: row["sum"] for row in influxd.rows(query, "bench")} == {
        phase: pytest.approx(values["gross"]["joules"], rel=1e-12) for phase, values in phases.items()
    }


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["--readings", "influxdb"],
            "was not sent to an InfluxDB; say where it is: --influx-url",
        ),
        (["--influx-url", "http://a:1"], "need --readings influxdb"),
        (["--readings", "influxdb", "--influx-url", "a:8086", "--influx-db", "b"], "http://influx.lan:8086"),
        (["--readings", "influxdb", "--influx-url", "http://u:secret@a:1", "--influx-db", "b"], "token file"),
        (AWAY, "cannot be reached"),
        (
            [*AWAY, "--influx-token-file", "no.txt"],
            "no.txt: cannot be read",
        ),
    ],
)
def test_what_does_not_lead_to_a_database_is_said_in_one_line(hand_made, words, expected):
    said = failed("report", hand_made(), *words)
    assert expected in said
    assert "secret" not in said


def test_a_token_that_would_break_the_header_is_refused_unseen(hand_made, tmp_path):
    (tmp_path / "token").write_bytes(b"sec\x01ret")
    assert "sec" not in failed("report", hand_made(), *AWAY, "--influx-token-file", tmp_path / "token")


def test_a_run_is_looked_for_from_a_day_before_it_was_made_to_a_day_after_its_end(hand_made):
    """For servers that will not search all of time; 14 November 2023, 22:13:20 UTC is 1,700,000,000."""
    with RunFolder.open(hand_made()) as folder:
        info = replace(folder.info, created_utc="2023-11-14T22:13:20+00:00")
    assert info.end_device_ns - info.start_device_ns == 100 * 10**9
    assert span_of(info) == (1_699_913_600 * 10**9, 1_700_086_500 * 10**9)
    assert span_of(replace(info, created_utc="?")) is None


def test_a_run_that_kept_nothing_in_its_folder_says_where_its_readings_are(hand_made, influxd: Influxd):
    influxd.create_database("empty")
    config = {"influxdb": {"url": influxd.url, "bucket": "empty", "store": "influxdb"}}
    run = hand_made(readings=False, phases=False, config=config)
    hint = "in its InfluxDB alone: add --readings influxdb"
    assert hint in asked("report", run, "--json")
    assert hint not in asked("report", run, "--json", "--readings", "influxdb")
    assert hint not in asked("report", hand_made("both", config={"influxdb": {"url": influxd.url}}), "--json")
