"""Whole runs whose records go to a real InfluxDB: by the agents, by the controller, quietly, in trouble."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from forked_commands import roambench
from influx_servers import Influxd, Shim, free_port, running
from living_agents import LivingBench
from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.phases import Phase
from roambench.contract.records import RecordKind
from roambench.runs.folder import RunFolder

#: (device, spool, seq)
Key = tuple[str, str, int]
#: Device seconds of an idle baseline, and how late on a busy machine a batch may be that left before it: a
#: second of the host.
BASELINE_S, LATE_S = 8.0, 4.0
MEASUREMENTS = ("power", "phase", "event", "host")


def keys_in_folder(path: Path) -> set[Key]:
    store = RunFolder.open(path).records
    keys = {
        (device, uuid, seq)
        for device, uuid in store.spools()
        for seq, _, _ in store.records_beyond(device, uuid, 0, 10**6)
    }
    store.close()
    return keys


def keys_in_influxdb(influxd: Influxd, database: str) -> tuple[set[Key], int]:
    """The records of runs, and how many points they take."""
    rows = [
        row
        for measurement in MEASUREMENTS
        for row in influxd.rows(
            f'SELECT "seq", "spool" FROM "{measurement}" WHERE "run" <> \'\' GROUP BY "device"', database
        )
    ]
    return {(row["device"], row["spool"], row["seq"]) for row in rows}, len(rows)


def assert_reports_are_equal(run, *influx_words: str) -> None:
    """Read back from the run's InfluxDB, it is the same run to the last digit."""
    words_of = {"folder": (), "influxdb": influx_words}
    for command in ("report", "compare"):
        of_folder, of_influxdb = (
            printed(command, run, "--readings", store, *words) for store, words in words_of.items()
        )
        assert of_influxdb == of_folder


def printed(command: str, run, *words: str) -> str:
    done = roambench(command, str(run.folder()), "--json", *words, cwd=run.runs_dir)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout) > 1000
    return done.stdout


def clock_of(path: Path) -> DeviceClock:
    agent = json.loads((path / "agents.json").read_text())["agents"][0]
    return DeviceClock(agent["epoch_ns"], agent["time_scale"])


@pytest.mark.timeout(600)
def test_every_record_of_a_quiet_run_is_in_both_stores_and_none_was_sent_in_a_measured_phase(
    launch, influxd: Influxd, tmp_path: Path
):
    influxd.create_database("quiet")
    token = tmp_path / "token"
    token.write_text("s3cret-t0ken")
    shim = Shim(tmp_path / "shim", free_port(), influxd, token="s3cret-t0ken")
    with running(shim):
        run = launch(
            f'influxdb.url="{shim.url}"',
            'influxdb.bucket="quiet"',
            f'influxdb.token_file="{token}"',
            "energy.quiet=true",
            "trace.steps=4",
            "fleet.agents=2",
            "local.sgd_step_s=0.6",
            f"energy.idle_baseline_s={BASELINE_S}",
        ).finish()
        assert_reports_are_equal(run, "--influx-token-file", str(token))
    files = [path for path in run.runs_dir.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert not [path for path in files if b"s3cret-t0ken" in path.read_bytes()]
    keys, points = keys_in_influxdb(influxd, "quiet")
    assert keys == keys_in_folder(run.folder())
    assert points == len(keys) > 100  # no two records met in one point
    clock = clock_of(run.folder())
    arrivals = [(clock.from_host_ns(ns), device) for ns, _, device in shim.requests()]
    assert {device for _, device in arrivals} == {"pi-01", "pi-02"}
    folder = RunFolder.open(run.folder())
    measured = [
        span
        for device in folder.records.devices()
        for span in folder.records.spans(device)
        if span.phase in (Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD)
    ]
    folder.close()
    assert sum(span.end_ns - span.start_ns for span in measured) > 15e9
    heard = [
        (device, span.phase)
        for ns, device in arrivals
        for span in measured
        if span.device == device and span.start_ns <= ns < span.end_ns
    ]
    assert heard == []
    # ... nor in the idle baselines.
    info = run.folder()
    start_ns, end_ns = _run_ns(info)
    late_ns, baseline_ns = round(LATE_S * 1e9), round(BASELINE_S * 1e9)
    for begin_ns in (start_ns, end_ns - baseline_ns):
        assert [ns for ns, _ in arrivals if begin_ns + late_ns <= ns < begin_ns + baseline_ns] == []


def _run_ns(path: Path) -> tuple[int, int]:
    info = RunFolder.open(path).info
    assert info.start_device_ns is not None
    assert info.end_device_ns is not None
    return info.start_device_ns, info.end_device_ns


@pytest.mark.timeout(600)
def test_the_controller_forwards_what_agents_drained_though_the_server_is_killed_meanwhile(launch, tmp_path):
    influxd = Influxd(tmp_path / "influxd", free_port())
    with running(influxd):
        influxd.create_database("forwarded")
        run = launch(
            f'influxdb.url="{influxd.url}"',
            'influxdb.bucket="forwarded"',
            'influxdb.api="v1"',
            'influxdb.via="controller"',
            "trace.steps=4",
            "fleet.agents=2",
        )
        run.wait_for_event(EventKind.TRAIN_STARTED, "pi-01", "%")
        influxd.kill()
        run.wait_for_event(EventKind.TRAIN_FINISHED, "pi-01", "%")
        influxd.start()
        run.finish()
        keys, points = keys_in_influxdb(influxd, "forwarded")
        assert keys == keys_in_folder(run.folder())
        assert points == len(keys) > 50
        (tags,) = influxd.query('SHOW TAG VALUES FROM "power" WITH KEY = "run"', "forwarded")
        assert tags["values"] == [["run", run_id := RunFolder.open(run.folder()).info.run_id]]
        assert re.fullmatch(r"small-mohawk\.[0-9a-f]{8}", run_id)
        clocks = influxd.rows('SELECT "clock_bound_ms" FROM "bench" WHERE "device" = \'pi-01\'', "forwarded")
        assert clocks
        assert all(0.0 < row["clock_bound_ms"] < 400.0 for row in clocks if row["clock_bound_ms"] is not None)
        assert_reports_are_equal(run)


BENCH_EXPERIMENT = """
name = "lab"
seed = 11
systems = ["mohawk"]
trace.generator = "city"
trace.window = "first"
trace.steps = 2
trace.parameters = { presence = "always", devices = 3, steps = 4, places = 100, aps = 10 }
fleet = { agents = 2, aps = 3 }
learning = { dataset = "digits", model = "mlp", images_per_device = 40, test_images = 200 }
rounds = { rest_s = 0.0 }
energy = { idle_baseline_s = 3.0, quiet = false }
"""


@pytest.mark.timeout(240)
def test_a_run_on_a_bench_is_read_back_from_the_benchs_influxdb_with_joules_by_phase(
    launch, influxd: Influxd, influx_shim: Shim, tmp_path_factory
):
    """The boards read and write before and after the run, too."""
    influxd.create_database("lab")
    # Of this machine, too: a bench takes no loopback, which real boards do not share.
    url = influx_shim.url.replace("127.0.0.1", "0.0.0.0")
    living = LivingBench(tmp_path_factory.mktemp("lab"), ("a", "b"), influxdb=(url, "lab"))
    file = living.folder / "experiment.toml"
    file.write_text(BENCH_EXPERIMENT)
    living.start()
    try:
        time.sleep(3.0)  # the meters are read meanwhile
        words = ("--fleet", f"bench:{living.file}", "--no-preflight", "--unproven")
        run = launch(file=file, name="lab", words=words).finish()
        time.sleep(3.0)
    finally:
        living.stop()
    (before,) = influxd.rows('SELECT count("watts") FROM "power" WHERE "run" = \'\'', "lab")
    assert before["count"] > 20
    assert_reports_are_equal(run)
    report = json.loads(printed("report", run))
    of_report = {
        phase: values["gross"]["joules"] for phase, values in report["runs"][0]["energy"]["phases"].items()
    }
    of_run = "\"bench\" = 'bench' AND \"system\" = 'mohawk'"
    query = f'SELECT sum("gross_j") FROM "energy" WHERE {of_run} GROUP BY "phase"'
    of_influxdb = {row["phase"]: row["sum"] for row in influxd.rows(query, "lab")}
    assert {"train", "idle"} < set(of_influxdb)
    assert of_influxdb == pytest.approx(of_report, rel=1e-12)
    spans = influxd.rows('SELECT count("step") FROM "phase" WHERE "run" <> \'\' GROUP BY "phase"', "lab")
    assert {"train", "upload"} < {row["phase"] for row in spans}


@pytest.mark.timeout(600)
def test_a_database_that_does_not_exist_is_said_aloud_and_the_run_goes_on(launch, influxd: Influxd):
    run = launch(
        f'influxdb.url="{influxd.url}"', 'influxdb.bucket="nowhere"', 'influxdb.api="v1"', "fleet.agents=1"
    ).finish()
    assert "store refuses: influxdb: " in run.text()
    assert "404" in run.text()
    assert "database not found" in run.text()
    assert "left in the spool: influxdb" in run.text()
    assert "database not found" in run.events(EventKind.STORE_REFUSES, "pi-01")[0].detail
    folder = RunFolder.open(run.folder())
    states = [
        json.loads(event.detail)
        for event in folder.records.events("pi-01")
        if event.kind == EventKind.SPOOL_STATE
    ]
    assert folder.records.counts("pi-01")[RecordKind.READING] > 3
    folder.close()
    assert states[-1]["controller"]["dropped"] == states[-1]["influxdb"]["dead"] == 0
    assert states[-1]["influxdb"]["depth"] > 5


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_may_keep_its_records_in_influxdb_alone(launch, influxd: Influxd, influx_shim: Shim):
    influxd.create_database("alone")
    run = launch(
        "fleet.agents=2",
        f'influxdb.url="{influx_shim.url}"',
        'influxdb.bucket="alone"',
        'influxdb.store="influxdb"',
        words=(),
        forked=True,
    ).finish()
    assert keys_in_folder(run.folder()) == set()
    keys, points = keys_in_influxdb(influxd, "alone")
    assert points == len(keys) > 60
    for command in ("report", "compare"):
        printed(command, run, "--readings", "influxdb")
