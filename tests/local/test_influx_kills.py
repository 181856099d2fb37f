"""Exactly once on InfluxDB, whoever is killed: 10 Hz meters, real agents' reading half, a real server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from influx_servers import Influxd, Shim, free_port, running
from meter_loggers import PERIOD_S, Fact, Loggers, meter_loggers, stored_facts
from roambench.contract.draws import generator
from roambench.contract.events import EventKind
from roambench.energy.integrate import power_curve
from roambench.energy.readings.samples import PowerSamples
from roambench.spool.influx_settings import InfluxSettings
from samples import sampled

from .conftest import until

#: (kills, meters, device seconds): small, and what the figures of docs/storage.md were made with.
SERVER_KILLS = pytest.mark.parametrize(
    ("kills", "meters", "device_s"), sampled([(3, 8, 36.0)], [(10, 36, 120.0)])
)
AGENT_KILLS = pytest.mark.parametrize(
    ("kills", "meters", "device_s"), sampled([(3, 5, 30.0)], [(10, 12, 60.0)])
)


def kill_moments(kills: int, device_s: float, time_scale: float, purpose: str) -> list[float]:
    """Host seconds from the start, drawn over the stream, ascending."""
    drawn = generator(7, purpose).uniform(0.05, 0.95, kills)
    return sorted(float(share) * device_s / time_scale for share in drawn)


def wait_until(started_s: float, moment_s: float) -> None:
    time.sleep(max(0.0, started_s + moment_s - time.monotonic()))


def streaming(loggers: Loggers) -> float:
    """Waits until every meter is being read; returns the host's monotonic seconds then."""
    deadline_s = time.monotonic() + 60.0
    while not loggers.everybody_reads():
        assert time.monotonic() < deadline_s, "not every meter is read"
        time.sleep(0.05)
    return time.monotonic()


def compared(
    read: set[Fact], stored: list[Fact], in_hand: set[tuple[str, int]]
) -> tuple[set[Fact], set[Fact]]:
    """What InfluxDB lacks, and what it has beyond; prints the sizes."""
    kept = set(stored)
    # A reader that was killed between its two notes may have spooled the reading, or not.
    undecided = {fact for fact in kept - read if (fact[0], fact[2]) in in_hand}
    missing, surplus = read - kept, kept - read - undecided
    print(
        f"\nread and noted {len(read)}, in InfluxDB {len(kept)} ({len(stored)} points), of them in hand at a "
        f"kill {len(undecided)}; difference {len(missing) + len(surplus)}"
    )
    assert len(stored) == len(kept)
    return missing, surplus


@contextmanager
def stream(folder: Path, meters: int, time_scale: float) -> Iterator[tuple[Influxd, Loggers, float]]:
    """A server with an empty database and meter loggers that write to it, all of them reading by now."""
    influxd = Influxd(folder / "influxd", free_port())
    with running(influxd), running(Shim(folder / "shim", free_port(), influxd)) as shim:
        influxd.create_database("bench")
        settings = InfluxSettings(shim.url, "bench", retry_most_s=2.0)
        with meter_loggers(folder / "fleet", meters, time_scale, settings) as loggers:
            yield influxd, loggers, streaming(loggers)


def assert_exactly_once(influxd: Influxd, loggers: Loggers, least: float) -> list[Fact]:
    """Stops the loggers; what they noted is what InfluxDB holds, and it is not little."""
    loggers.stop()
    read, in_hand = loggers.facts()
    stored = stored_facts(influxd, "bench")
    missing, surplus = compared(read, stored, in_hand)
    assert (len(missing), len(surplus)) == (0, 0)
    assert len(read) > least
    return stored


def server_kills(folder: Path, kills: int, meters: int, device_s: float, time_scale: float) -> None:
    with stream(folder, meters, time_scale) as (influxd, loggers, started_s):
        down_s = generator(7, "downtime").uniform(0.1, 1.5, kills)
        for moment_s, pause_s in zip(
            kill_moments(kills, device_s, time_scale, "server"), down_s, strict=True
        ):
            wait_until(started_s, moment_s)
            influxd.kill()
            time.sleep(float(pause_s))
            influxd.mend_logs()
            influxd.start()
        wait_until(started_s, device_s / time_scale)
        assert influxd.starts == 1 + kills
        assert_exactly_once(influxd, loggers, 0.9 * meters * device_s / PERIOD_S)


def agent_kills(folder: Path, kills: int, meters: int, device_s: float, time_scale: float) -> None:
    with stream(folder, meters, time_scale) as (influxd, loggers, started_s):
        victims = generator(7, "victims").choice(loggers.names, kills, replace=False)
        read: dict[str, int] = {}
        for moment_s, name in zip(kill_moments(kills, device_s, time_scale, "agents"), victims, strict=True):
            wait_until(started_s, moment_s)
            read[str(name)] = len(loggers.notebook(str(name)).spooled)
            assert loggers.kill(str(name))
        wait_until(started_s, device_s / time_scale)
        until(
            lambda: all(len(loggers.notebook(name).spooled) > count + 5 for name, count in read.items()),
            60,
            "readings of those who were killed last",
        )
        stored = assert_exactly_once(influxd, loggers, 0.8 * meters * device_s / PERIOD_S)
        lives = influxd.rows("SELECT kind, monotonic_ns FROM event GROUP BY device", "bench")
        lost, holes_s = 0, 0.0
        for name in loggers.names:
            begun = sorted(
                row["monotonic_ns"]
                for row in lives
                if (row["device"], row["kind"]) == (name, EventKind.AGENT_STARTED)
            )
            assert len(begun) == (2 if name in victims else 1)
            if len(begun) == 2:
                ns = np.array(sorted(fact[2] for fact in stored if fact[0] == name))
                after = int(np.searchsorted(ns, begun[1]))
                hole_s = float(ns[after] - ns[after - 1]) * 1e-9
                assert hole_s > 2.5 * PERIOD_S  # it shows in the stamps: nothing was made up for it
                curve = power_curve(PowerSamples.of(ns, np.ones(len(ns))), int(ns[0]), int(ns[-1]), PERIOD_S)
                assert curve.energy().gap_s > 0.8 * hole_s
                lost += round(hole_s / PERIOD_S) - 1
                holes_s += hole_s
        print(f"{kills} agents killed: about {lost} lines had no reader; gaps of {holes_s:.1f} s together")


def test_influxdb_1_6_forgets_what_it_acknowledged_if_two_kills_follow_on_a_truncated_entry(tmp_path):
    """The server's own fault, which docs/storage.md tells: where it is mended, `mend_logs` may go."""
    influxd = Influxd(tmp_path / "influxd", free_port())
    with running(influxd):
        influxd.create_database("bench")
        influxd.write_lines("bench", [f"power volts={number} {number}" for number in range(1, 6)])
        influxd.kill()
        (log,) = influxd.folder.rglob("*.wal")
        entry = log.read_bytes()
        log.write_bytes(entry + entry[: len(entry) // 2])  # the next entry's writing was interrupted
        assert [whole for _, whole in influxd.truncated_logs()] == [len(entry)]
        influxd.start()
        influxd.write_lines("bench", [f"power volts={number} {number}" for number in range(6, 11)])
        assert len(influxd.rows("SELECT volts FROM power", "bench")) == 10
        influxd.kill()
        influxd.start()
        assert len(influxd.rows("SELECT volts FROM power", "bench")) == 5


@SERVER_KILLS
@pytest.mark.timeout(600)
def test_sigkills_of_the_server_during_a_stream_cost_no_reading_and_make_none(
    tmp_path, kills, meters, device_s
):
    server_kills(tmp_path, kills, meters, device_s, time_scale=6.0)


@AGENT_KILLS
@pytest.mark.timeout(600)
def test_a_killed_agent_loses_only_what_was_not_read_and_that_shows_as_a_gap(
    tmp_path, kills, meters, device_s
):
    agent_kills(tmp_path, kills, meters, device_s, time_scale=6.0)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ten_sigkills_of_agents_during_a_stream_of_36_meters(tmp_path):
    agent_kills(tmp_path, 10, meters=36, device_s=120.0, time_scale=4.0)
