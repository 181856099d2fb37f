"""Every query of the dashboard, asked of a real InfluxDB that holds an emulated fleet's points."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import influx_runs
from influx_servers import Influxd
from roambench.contract.events import EventKind
from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import (
    AgentEvent,
    HostSample,
    Reading,
    RecordKind,
    phase_to_bytes,
)
from roambench.emulation.electric.power import IDLE, Activity
from roambench.emulation.virtual import emulate
from roambench.spool.line_protocol import bench_line, energy_line

S = 10**9
RUN = "city-42.mohawk"
BOARDS = ("pi-01", "pi-02", "pi-03")
FOLDER = Path(__file__).parents[3] / "docs" / "grafana"
DASHBOARD = json.loads((FOLDER / "dashboards" / "roambench.json").read_text(encoding="utf-8"))
PANELS = {panel["title"]: panel for panel in DASHBOARD["panels"] if panel["type"] != "row"}
ANNOTATIONS = {one["name"]: one for one in DASHBOARD["annotations"]["list"]}
VARIABLES = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
START_MS = influx_runs.UNIX_MINUS_DEVICE_NS // 10**6
END_MS = START_MS + 200_000
#: Seconds from the start of device time.
DOWNLOAD, TRAIN, UPLOAD = (20, 24), (24, 60), (60, 64)


@pytest.fixture(scope="module")
def readings(influxd: Influxd) -> dict[str, list[Reading]]:
    """Three boards for 200 s, and another run of the same boards that no query may touch."""
    influxd.create_database("roambench")
    schedule = ((0.0, IDLE), (24.0, Activity(busy_cores=4.0)), (60.0, IDLE))
    found = {name: emulate(schedule, 195.0, seed).readings() for seed, name in enumerate(BOARDS)}
    points = []
    for index, name in enumerate(BOARDS):
        rows = [(RecordKind.READING, reading.to_bytes()) for reading in found[name]]
        for phase, (start, end) in ((Phase.DOWNLOAD, DOWNLOAD), (Phase.TRAIN, TRAIN), (Phase.UPLOAD, UPLOAD)):
            span = PhaseSpan(name, "boot", phase, 3, start * S, end * S, f"r/3/{index}/{phase}", "", 1000)
            rows.append((RecordKind.PHASE, phase_to_bytes(span)))
        if index == 0:
            span = PhaseSpan(name, "boot", Phase.EXCHANGE, 3, 70 * S, 72 * S, "r/3/0/exchange")
            rows.append((RecordKind.PHASE, phase_to_bytes(span)))
        for second, kind in (
            (1, EventKind.AGENT_STARTED),
            (2, EventKind.METER_OK),
            (100, EventKind.METER_STALE),
            (104, EventKind.METER_OK),
        ):
            rows.append((RecordKind.EVENT, AgentEvent(kind, second * S, "3 s").to_bytes()))
        rows.append(
            (RecordKind.EVENT, AgentEvent(EventKind.STORE_REFUSES, 150 * S, "influxdb: 401").to_bytes())
        )
        for second in range(0, 200, 5):
            hot = second >= 40
            bits = 0x80008 if hot else 0x80000  # has been too warm since boot; is it now?
            sample = HostSample(second * S, 0.25 * index, 1.0, 9, 60.0 + index + hot, 1400.0, 0, 0, bits)
            rows.append((RecordKind.HOST, sample.to_bytes()))
        numbered = [(name, f"spool-{index}", seq, *row) for seq, row in enumerate(rows, 1)]
        points += influx_runs.lines(numbered, RUN)
        for line in influx_runs.lines(numbered, "another"):  # of a version whose phases were fields
            points.append(re.sub(r"^phase(.*),phase=(\w+)(\S*) ", r'phase\1\3 phase="\2",', line))
        context = influx_runs.OneContext(RUN).context
        for phase, joules in ((Phase.TRAIN, 100.0), (Phase.UPLOAD, 1.0)):
            energy = {"gross_j": joules * (index + 1), "net_j": joules}
            points.append(energy_line(name, context, phase, energy, START_MS * 10**6))
        for second in range(10, 200, 10):
            values = {
                "spool_depth": second * (index + 1),
                "oldest_age_s": 0.5 * second,
                "dropped": 2 * index,
                "dead": index,
                "clock_offset_ms": -1.5,
                "clock_bound_ms": 0.25 * (index + 1),
            }
            points.append(bench_line(name, context, values, context.unix_ns(second * S)))
    influx_runs.send(points, influxd, "roambench")
    return found


def filled(query: str, boards: tuple[str, ...] = BOARDS, interval: str = "10s") -> str:
    """The query as Grafana sends it: a variable of several values becomes alternatives of a pattern."""
    chosen = boards[0] if len(boards) == 1 else f"({'|'.join(boards)})"
    for name, value in {
        "$__interval": interval,
        "$timeFilter": f"time >= {START_MS}ms and time <= {END_MS}ms",
        "$run": RUN,
        "$device": chosen,
    }.items():
        query = query.replace(name, value)
    assert "$" not in query.replace("$/", "")
    return query


def rows(influxd: Influxd, title: str, target: int = 0, **how: Any) -> list[dict[str, Any]]:
    return influxd.rows(filled(PANELS[title]["targets"][target]["query"], **how), "roambench")


def by_board(found: list[dict[str, Any]], column: str) -> dict[str, list[Any]]:
    return {name: [row[column] for row in found if row["device"] == name] for name in BOARDS}


def trapezoid_j(readings: list[Reading]) -> float:
    seconds = np.array([reading.monotonic_ns for reading in readings]) * 1e-9
    return float(np.trapezoid([reading.watts for reading in readings], seconds))


@pytest.mark.parametrize(
    "query",
    [
        *(target["query"] for panel in PANELS.values() for target in panel["targets"]),
        *(one["query"] for one in ANNOTATIONS.values()),
        *(one["query"] for one in VARIABLES.values()),
    ],
)
def test_every_query_is_understood_and_finds_something(influxd: Influxd, readings, query: str):
    assert influxd.rows(filled(query), "roambench")


def test_the_variables_offer_the_runs_and_the_boards_of_the_run(influxd: Influxd, readings):
    runs, boards = (
        [row["value"] for row in influxd.rows(filled(VARIABLES[name]["query"]), "roambench")]
        for name in ("run", "device")
    )
    assert runs == ["another", RUN]
    assert boards == list(BOARDS)


def test_energy_per_board_is_the_trapezoid_of_its_readings(influxd: Influxd, readings):
    found = by_board(rows(influxd, "Energy per board"), "energy")
    for name in BOARDS:
        # 195 s at 1.9 W, and 36 s of 4 cores on top: (5.1 - 1.9) W more. Within the meter's own 1 %.
        assert found[name] == [pytest.approx(trapezoid_j(readings[name]), rel=1e-6)]
        assert found[name][0] == pytest.approx(195 * 1.9 + 36 * 3.2, rel=0.03)


def test_fleet_energy_is_their_sum_and_follows_the_choice_of_boards(influxd: Influxd, readings):
    total = sum(trapezoid_j(readings[name]) for name in BOARDS)
    assert rows(influxd, "Fleet energy")[0]["sum"] == pytest.approx(total, rel=1e-6)
    one = rows(influxd, "Fleet energy", boards=("pi-02",))[0]["sum"]
    assert one == pytest.approx(trapezoid_j(readings["pi-02"]), rel=1e-6)


def test_energy_per_phase_is_grouped_by_the_tag(influxd: Influxd, readings):
    found = {row["phase"]: row["energy"] for row in rows(influxd, "Energy per phase")}
    assert found == {"train": 600.0, "upload": 6.0}


def test_power_over_time_is_the_mean_of_the_readings_of_each_interval(influxd: Influxd, readings):
    for title in ("Fleet power", "Power per board"):
        found = rows(influxd, title)
        assert len(found) == 3 * 20
        for row in found:
            start_ns = row["time"] - influx_runs.UNIX_MINUS_DEVICE_NS
            inside = [
                reading.watts
                for reading in readings[row["device"]]
                if start_ns <= reading.monotonic_ns < start_ns + 10 * S
            ]
            assert row["mean"] == pytest.approx(math.fsum(inside) / len(inside), rel=1e-9)


def test_what_fleet_and_boards_show_right_now(influxd: Influxd, readings):
    last_w = [readings[name][-1].watts for name in BOARDS]
    assert rows(influxd, "Fleet power now")[0]["sum"] == pytest.approx(sum(last_w))
    assert rows(influxd, "Boards heard")[0]["count"] == 3
    assert rows(influxd, "Boards heard", boards=BOARDS[:2])[0]["count"] == 2
    dropped, dead = (rows(influxd, "Records dropped or refused", target)[0]["sum"] for target in (0, 1))
    assert (dropped, dead) == (0 + 2 + 4, 0 + 1 + 2)


def test_phases_are_listed_latest_first(influxd: Influxd, readings):
    found = rows(influxd, "Phases", boards=("pi-01",))
    assert [row["phase"] for row in found] == ["exchange", "upload", "train", "download"]
    assert found[2]["order_id"] == "r/3/0/train"


@pytest.mark.parametrize(
    ("name", "between"),
    [("download", DOWNLOAD), ("train", TRAIN), ("upload", UPLOAD), ("exchange", (70, 72))],
)
def test_a_phase_is_a_region_from_its_start_to_its_end(influxd: Influxd, readings, name, between):
    one = ANNOTATIONS[name]
    found = influxd.rows(filled(one["query"], boards=("pi-01",)), "roambench")
    (row,) = found
    assert row[one["textColumn"]] == name
    assert row[one["tagsColumn"]] == "pi-01"
    assert row["time"] // 10**6 - START_MS == between[0] * 1000
    assert row[one["timeEndColumn"]] - START_MS == between[1] * 1000


def test_trouble_is_marked_and_ordinary_events_are_not(influxd: Influxd, readings):
    meter = influxd.rows(filled(ANNOTATIONS["meter trouble"]["query"]), "roambench")
    assert sorted((row["device"], row["kind"]) for row in meter) == [
        (name, EventKind.METER_STALE) for name in BOARDS
    ]
    store = influxd.rows(filled(ANNOTATIONS["store trouble"]["query"]), "roambench")
    assert {row["kind"] for row in store} == {EventKind.STORE_REFUSES}
    listed = rows(influxd, "Meters", boards=("pi-03",))
    assert [row["kind"] for row in listed] == [EventKind.METER_OK, EventKind.METER_STALE, EventKind.METER_OK]


def test_the_boards_health_is_what_the_host_samples_say(influxd: Influxd, readings):
    warm = by_board(rows(influxd, "Temperature"), "mean")
    assert warm["pi-02"] == [61.0] * 4 + [62.0] * 16
    assert by_board(rows(influxd, "Throttled now"), "max")["pi-01"] == [0] * 4 + [8] * 16
    assert set(by_board(rows(influxd, "Processor"), "mean")["pi-03"]) == {0.5}


def test_the_instruments_own_state(influxd: Influxd, readings):
    assert by_board(rows(influxd, "Spool depth"), "max")["pi-02"] == [2 * s for s in range(10, 200, 10)]
    assert by_board(rows(influxd, "Oldest record waiting"), "max")["pi-01"][:3] == [5.0, 10.0, 15.0]
    assert set(by_board(rows(influxd, "Clock bound"), "max")["pi-03"]) == {0.75}


def test_every_panel_is_looked_at_above():
    text = Path(__file__).read_text(encoding="utf-8")
    for title in PANELS:
        assert re.search(rf'"{re.escape(title)}"', text), title
