"""Exactly once on InfluxDB, whoever is killed: 10 Hz meters, real agents' reading half, a real server."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from influx_servers import Influxd, Shim, free_port, running
from meter_loggers import PERIOD_S, Fact, Loggers, meter_loggers, stored_facts

from roambench.contract.draws import generator
from roambench.spool.influx_settings import InfluxSettings

KILLS = 10


def kill_moments(device_s: float, time_scale: float, purpose: str) -> list[float]:
    """Ten host seconds from the start, drawn over the stream, ascending."""
    drawn = generator(7, purpose).uniform(0.05, 0.95, KILLS)
    return sorted(float(share) * device_s / time_scale for share in drawn)


def settings_for(shim: Shim) -> InfluxSettings:
    return InfluxSettings(shim.url, "bench", retry_most_s=2.0)


def wait_until(started_s: float, moment_s: float) -> None:
    time.sleep(max(0.0, started_s + moment_s - time.monotonic()))


def streaming(loggers: Loggers) -> float:
    """Waits until every meter is being read; returns the host's monotonic seconds then."""
    deadline_s = time.monotonic() + 60.0
    while not loggers.everybody_reads():
        assert time.monotonic() < deadline_s, "not every meter is read"
        time.sleep(0.05)
    return time.monotonic()


def compared(read: set[Fact], stored: list[Fact], in_hand: set[tuple[str, int]]) -> tuple[set[Fact], set[Fact]]:
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


def kill_server_often(influxd: Influxd, moments: list[float], started_s: float) -> None:
    down_s = generator(7, "downtime").uniform(0.1, 1.5, len(moments))
    for moment_s, pause_s in zip(moments, down_s, strict=True):
        wait_until(started_s, moment_s)
        influxd.kill()
        time.sleep(float(pause_s))
        influxd.start()


def stream(folder: Path, meters: int, device_s: float, time_scale: float, victims: str) -> None:
    """The proof; `victims` is "server" or "agents"."""
    influxd = Influxd(folder / "influxd", free_port())
    with running(influxd), running(Shim(folder / "shim", free_port(), influxd)) as shim:
        assert isinstance(shim, Shim)
        influxd.create_database("bench")
        with meter_loggers(folder / "fleet", meters, time_scale, settings_for(shim)) as loggers:
            started_s = streaming(loggers)
            moments = kill_moments(device_s, time_scale, victims)
            if victims == "server":
                killer = threading.Thread(target=kill_server_often, args=(influxd, moments, started_s))
                killer.start()
                killer.join()
            else:
                kill_agents(loggers, moments, started_s)
            wait_until(started_s, device_s / time_scale)
            emitted = loggers.lines_emitted()
            loggers.stop()
            assert (influxd.starts, loggers.kills) == ((11, 0) if victims == "server" else (1, KILLS))
            read, in_hand = loggers.facts()
            missing, surplus = compared(read, stored_facts(influxd, "bench"), in_hand)
            assert (len(missing), len(surplus)) == (0, 0)
            assert len(read) > 0.9 * meters * device_s / PERIOD_S * (1.0 if victims == "server" else 0.8)
            print(f"emitted by the meters at the last count {emitted}")


def kill_agents(loggers: Loggers, moments: list[float], started_s: float) -> None:
    chosen = generator(7, "victims").permutation(len(loggers.names))
    for index, moment_s in enumerate(moments):
        wait_until(started_s, moment_s)
        while not loggers.kill(loggers.names[int(chosen[index % len(chosen)])]):
            time.sleep(0.02)


@pytest.mark.timeout(300)
def test_ten_sigkills_of_the_server_during_a_stream_of_36_meters_cost_no_reading_and_make_none(tmp_path):
    stream(tmp_path, meters=36, device_s=120.0, time_scale=4.0, victims="server")
