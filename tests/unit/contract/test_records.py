"""Spool records: exact round trips, and nothing but ValueError for bytes that are none."""

import math

import numpy as np
import pytest

from roambench.contract.events import EventKind
from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import (
    AgentEvent,
    HostSample,
    Reading,
    ReadingFlag,
    phase_from_bytes,
    phase_to_bytes,
)


def test_a_reading_survives_exactly() -> None:
    reading = Reading(2**62, 5.161, 0.662, 3.416, 0.001, ReadingFlag.INCONSISTENT | ReadingFlag.BURST)
    assert Reading.from_bytes(reading.to_bytes()) == reading


def test_a_field_the_meter_does_not_report_stays_nan() -> None:
    assert math.isnan(Reading.from_bytes(Reading(1, 5.0, 0.4, 2.0).to_bytes()).watt_hours)


@pytest.mark.parametrize("payload", [b"", b"short", b"x" * 51, b"x" * 53])
def test_a_reading_of_another_length_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match="52 bytes"):
        Reading.from_bytes(payload)


def test_unknown_flag_bits_are_refused() -> None:
    payload = Reading(1, 5.0, 0.4, 2.0).to_bytes()[:-12] + b"\x00\x00\x01\x00" + b"\xff" * 8
    with pytest.raises(ValueError, match="0x10000"):
        Reading.from_bytes(payload)


def test_a_meters_clock_survives_and_one_beyond_32_bits_is_refused() -> None:
    reading = Reading(9, 5.0, 0.4, 2.0, 0.1, meter_ms=2**32 - 1)
    assert Reading.from_bytes(reading.to_bytes()) == reading
    with pytest.raises(ValueError, match="4294967296"):
        Reading.from_bytes(Reading(9, 5.0, 0.4, 2.0, meter_ms=2**32).to_bytes())


def test_a_host_sample_survives_exactly_and_another_length_is_refused() -> None:
    sample = HostSample(7, 0.25, 12.5, 300_000_000, 61.5, 1200.0, 10, 20, 0x80008)
    assert HostSample.from_bytes(sample.to_bytes()) == sample
    with pytest.raises(ValueError, match="72 bytes"):
        HostSample.from_bytes(sample.to_bytes()[1:])


def test_a_span_survives_and_takes_the_drains_device_name() -> None:
    span = PhaseSpan("pi-01", "boot", Phase.UPLOAD, 7, 10, 25, "up", "train", 99)
    assert phase_from_bytes("pi-01", phase_to_bytes(span)) == span
    assert phase_from_bytes("pi-02", phase_to_bytes(span)).device == "pi-02"
    assert phase_to_bytes(span) == b'["boot","upload",7,10,25,"up","train",99,0,0,[]]'


def stalled(*stalls_ns: tuple[int, int]) -> PhaseSpan:
    return PhaseSpan("pi-01", "boot", Phase.DOWNLOAD, 7, 10, 25, "down", "train", 99, 12, 24, stalls_ns)


def test_the_stalls_of_a_transfer_survive_and_those_that_no_agent_stamped_are_refused() -> None:
    for span in (stalled((13, 15), (15, 20)), stalled(*((k, k + 1) for k in range(12, 20)))):
        assert phase_from_bytes("pi-01", phase_to_bytes(span)) == span
    assert phase_to_bytes(stalled((13, 15))).endswith(b",99,12,24,[[13,15]]]")
    for wrong in (((11, 15),), ((20, 25),), ((15, 13),), ((13, 16), (15, 20)), ((16, 18), (13, 14))):
        with pytest.raises(ValueError, match="not one after the other between its first and last byte"):
            phase_from_bytes("pi-01", phase_to_bytes(stalled(*wrong)))
    with pytest.raises(ValueError, match="has 9 stalls, the most is 8"):
        phase_from_bytes("pi-01", phase_to_bytes(stalled(*((k, k) for k in range(13, 22)))))
    with pytest.raises(ValueError, match="not one after the other"):  # of what was not stamped
        phase_from_bytes("pi-01", b'["boot","upload",7,10,25,"up","train",99,0,0,[[12,14]]]')


@pytest.mark.parametrize(
    "stalls", [b"null", b"[13,15]", b"[[13]]", b"[[13,15,17]]", b'[["13",15]]', b"[[13,1.5]]"]
)
def test_what_is_no_list_of_stretches_is_told(stalls: bytes) -> None:
    with pytest.raises(ValueError, match=r"phase: \[10\].*: expected"):
        phase_from_bytes("pi", b'["boot","upload",7,10,25,"up","train",99,12,24,' + stalls + b"]")


def test_everything_that_is_wrong_with_a_span_is_told() -> None:
    with pytest.raises(
        ValueError, match=r"phase: \[1\]: expected one of idle.*\nphase: \[4\]: expected int, got 2.5"
    ):
        phase_from_bytes("pi", b'["boot","resting",7,10,2.5,"up","train",99,0,0,[]]')


def test_a_span_that_ends_before_it_starts_is_refused() -> None:
    payload = phase_to_bytes(PhaseSpan("pi-01", "boot", Phase.IDLE, 0, 10, 5))
    with pytest.raises(ValueError, match="ends before it starts"):
        phase_from_bytes("pi-01", payload)


def test_mutated_payloads_raise_nothing_but_value_errors() -> None:
    random = np.random.Generator(np.random.PCG64(3))
    payloads = [
        phase_to_bytes(stalled((13, 15), (17, 19))),
        AgentEvent(EventKind.TRAIN_STARTED, 5, "x").to_bytes(),
        b"[" * 5000,
    ]
    refused = 0
    for number in range(6000):
        payload = bytearray(payloads[number % 3])
        payload[int(random.integers(0, len(payload)))] = int(random.integers(0, 256))
        for decode in (lambda p: phase_from_bytes("pi-01", p), AgentEvent.from_bytes, Reading.from_bytes):
            try:
                decode(bytes(payload))
            except ValueError:
                refused += 1
    assert refused > 12_000
