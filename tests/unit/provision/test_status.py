"""A host's status is what its agent said, with nothing made up for what it did not say."""

from __future__ import annotations

from pathlib import Path

from roambench.provision.bench import MeterEntry
from roambench.provision.status import HostStatus, controllers_meter, status_of, throttle_words


def test_every_value_of_the_answer_has_its_place():
    answer = {
        "version": "0.1.0",
        "build": "abc123",
        "session": "open",
        "run": "demo",
        "phase": "train",
        "host": {"temperature_c": 51.5, "throttle_bits": 0x50000},
        "disk": {"free_bytes": 3_000_000_000, "total_bytes": 30_000_000_000},
        "spool": {"controller": {"depth": 7}, "influxdb": {"depth": 3}},
        "unsent_runs": {"b": 10, "a": 20},
        "meter": {"state": "reading", "last": {"watts": 1.9, "age_s": 0.4}},
    }
    assert status_of(answer) == HostStatus(
        version="0.1.0",
        build="abc123",
        session="open",
        run="demo",
        phase="train",
        temperature_c=51.5,
        throttle_bits=0x50000,
        disk_free_bytes=3_000_000_000,
        disk_total_bytes=30_000_000_000,
        spool_depth=7,  # the slowest of those who read it
        unsent_runs=("a", "b"),
        meter_state="reading",
        watts=1.9,
        meter_age_s=0.4,
    )


def test_an_agent_that_says_less_or_nonsense_leaves_gaps_and_no_error():
    assert status_of({}) == HostStatus()
    nonsense = {
        "host": 5,
        "spool": {"controller": []},
        "meter": {"last": None, "state": "open"},
        "disk": None,
    }
    assert status_of(nonsense) == HostStatus(meter_state="open")


def test_throttle_bits_in_words():
    assert throttle_words(0) == throttle_words(None) == ""
    assert throttle_words(0x1) == "under-voltage now"
    assert throttle_words(0x50005) == "under-voltage now, throttled now"
    assert throttle_words(0x60000) == "frequency capped since boot, throttled since boot"


def test_a_meter_of_the_controller_is_said_to_be_there_or_not_and_is_not_opened(tmp_path: Path):
    def told(port: str) -> str:
        return controllers_meter(MeterEntry("smartpower3", port, "", 1.0, 0.0, "", False, host="controller"))

    device = tmp_path / "meter"
    device.mkdir()  # opening it would fail
    assert told(f"{device}?interval_ms=100") == f"read by the controller in a run: {device} is there"
    device.rmdir()
    assert told(str(device)) == f"read by the controller in a run: {device} is not there"
    assert told("192.168.4.1:23") == "read by the controller in a run"
