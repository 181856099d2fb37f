"""Boards that drain absurd records, as the wire's description allows them: the others have their results.

Records are made here from `protos` (a reading is "<qddddIq", a host sample "<qddqddqqq", phases and events
are JSON lists), not by the agent's own classes, which would refuse to make some of them.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.phases import Outcome
from roambench.energy.clocks.clock_fit import ClockExchange
from roambench.fleet.clock_probes import clock_probed
from roambench.meters.traits import TRAITS, MeterDescription
from roambench.report.summaries.evidence import read_runs
from roambench.report.summaries.run import summarise
from roambench.rounds.records import ClockProbed, OrderGiven, OutcomeDecided, StepClosed, StepOpened
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.spool.record_context import RecordContext
from small_runs import a_run

pytestmark = pytest.mark.lengthy

S = 10**9
BOOT = "0123456789abcdef0123456789abcdef"


def reading(
    ns: int, watts: float = 2.0, volts: float = 5.0, amps: float = 0.4, flags: int = 0, ms: int = -1
) -> bytes:
    return struct.pack("<qddddIq", ns, volts, amps, watts, math.nan, flags, ms)


def phase(
    name: str,
    start: object,
    end: object,
    step: object = 0,
    order: object = "",
    moved: object = 0,
    first: object = 0,
    last: object = 0,
    stalls: object = (),
) -> bytes:
    return json.dumps([BOOT, name, step, start, end, order, order, moved, first, last, stalls]).encode()


def stalled(*stalls: object) -> bytes:
    return phase("upload", 5 * S, 9 * S, 0, "t", 9, 5 * S + 1, 9 * S - 1, stalls)


def event(kind: object, ns: object, detail: object = "") -> bytes:
    return json.dumps([kind, ns, detail]).encode()


def context(offset_ns: object, boot: str = BOOT) -> bytes:
    body = {"boot_id": boot, "clock": "0/1.0", "unix_minus_device_ns": offset_ns, "meter": "", "run": "run"}
    return event(EventKind.RECORD_CONTEXT_BEGINS, 0, json.dumps(body))


def described(**more: object) -> bytes:
    meter = {"driver": "smartpower2", "port": "/dev/ttyUSB0", "traits": "smartpower2", "serial": "x", **more}
    return event(EventKind.METER_DESCRIBED, 0, json.dumps(meter))


def state(value: object) -> bytes:
    spool = {"depth": value, "dropped": value, "dead": value}
    return event(EventKind.SPOOL_STATE, 0, json.dumps({"controller": spool}))


def host(ns: int, value: float = 0.5, count: int = 5) -> bytes:
    return struct.pack("<qddqddqqq", ns, value, value, count, value, value, count, count, count)


Record = tuple[int, bytes]
HONEST: list[Record] = [
    (3, context(1_700_000_000 * S)),
    (3, event(EventKind.AGENT_STARTED, 0, "pid 7, version 1")),
    *((1, reading(second * S + second % 7)) for second in range(61)),
    (2, phase("idle", 0, 10 * S, -1)),
    (2, phase("train", 10 * S, 40 * S, 0, "t")),
    (2, phase("idle", 40 * S, 60 * S)),
    (4, host(5 * S)),
    (4, host(50 * S)),
]
INT64 = [-1, 2**53, 2**62, 2**63 - 1, -(2**63), 10**17]
FLOATS = [0.0, -0.0, 5e-324, 1e308, -1e308, math.inf, math.nan, -2.0, 1e5, 40.0]
HUGE = [2**70, -(10**30)]
ABSURD: dict[str, list[Record]] = {
    **{f"watts {w!r}": [(1, reading(20 * S + i, w)) for i in range(9)] for w in FLOATS},
    **{f"volts and amps {v!r}": [(1, reading(20 * S, 2.0, v, v))] for v in FLOATS},
    **{f"one more reading at {ns}": [(1, reading(ns))] for ns in INT64},
    "a hundred readings at one stamp": [(1, reading(7 * S, i)) for i in range(100)],
    "every flag": [(1, reading(21 * S, flags=0x1F)), (1, reading(22 * S, flags=0xFFFFFFFF))],
    **{f"meter's clock {n}": [(1, reading((30 + i) * S, ms=n)) for i in (0, 1)] for n in (0, 2**32 - 1, 2**62)},  # noqa: E501
    "a meter's clock that runs backwards": [(1, reading((20 + i) * S, ms=5000 - 1000 * i)) for i in range(6)],
    **{f"phase from {ns}": [(2, phase("train", ns, ns + 5 * S, 0, "t"))] for ns in [*INT64, *HUGE]},
    **{f"phase until {ns}": [(2, phase("upload", 5 * S, ns, 0, "t"))] for ns in [*INT64, *HUGE]},
    **{f"step {n}": [(2, phase("train", 5 * S, 6 * S, n, "t"))] for n in [*INT64, *HUGE]},
    **{f"bytes {n}": [(2, phase("download", 5 * S, 6 * S, 0, "t", n))] for n in [*INT64, *HUGE]},
    **{f"first {ns}": [(2, phase("upload", 5 * S, 6 * S, 0, "t", 9, ns, 6 * S))] for ns in [*INT64, *HUGE]},
    **{f"last {ns}": [(2, phase("upload", 5 * S, 6 * S, 0, "t", 9, 5 * S, ns))] for ns in [*INT64, *HUGE]},
    **{f"stall until {ns}": [(2, stalled((6 * S, ns)))] for ns in [*INT64, *HUGE]},
    "stalls that overlap, run backwards or last for nothing": [
        (2, stalled((6 * S, 8 * S), (7 * S, 8 * S))),
        (2, stalled((8 * S, 6 * S))),
        (2, stalled(*[(5 * S + 1, 5 * S + 1)] * 8)),
        (2, stalled((5 * S + 1, 9 * S - 1))),
    ],
    "a hundred thousand stalls": [(2, stalled(*[(6 * S, 6 * S)] * 100_000))],
    "a hundred phases at once": [(2, phase("train", 0, (60 - i % 3) * S, i, "t")) for i in range(100)],
    "phases of no time": [(2, phase("train", 30 * S, 30 * S, 0, "t"))] * 3,
    "a phase of an order of another": [(2, phase("train", 5 * S, 50 * S, 0, "of pi-01"))],
    **{f"event at {ns}": [(3, event(EventKind.AGENT_STARTED, ns))] for ns in [*INT64, *HUGE]},
    "a number of 4,000 digits": [(3, b'["agent started",1' + b"0" * 4000 + b',""]')],
    "half a surrogate": [(3, b'["\\ud800",5,""]'), (2, phase("idle", 0, S, 0, "\ud800"))],
    "a hundred restarts": [(3, event(EventKind.AGENT_STARTED, i * S // 2)) for i in range(100)],
    **{f"context with offset {n}": [(3, context(n, "other")), (1, reading(S))] for n in [*INT64, *HUGE]},
    "context of the same boot, two clocks": [(3, context(0)), (3, context(10**18)), (1, reading(33 * S))],
    "record context that is none": [
        (3, context("soon")),
        (3, context(None)),
        (3, event(EventKind.RECORD_CONTEXT_BEGINS, 0, "{")),
    ],
    **{f"meter's period {n:.3}": [(3, described(nominal_s=n))] for n in FLOATS},
    **{f"meter's period, {n}": [(3, described(nominal_s=10**n))] for n in (20, 400, 4000)},
    **{f"meter's traits {text[:9]}": [(3, described(traits=text))] for text in ("perpetuum", "", "x" * 9999)},
    **{f"meter read by {n}": [(3, described(remote_reader=n))] for n in ("pi-000", "pi-001", "controller")},
    **{f"spool state {v!r}": [(3, state(v))] for v in (-1, 2**70, True, 1.5, None, "many")},
    **{f"host of {v!r}": [(4, host((5 + i) * S, v)) for i in range(4)] for v in FLOATS},
    **{f"host counts {n}": [(4, host(6 * S, 0.5, n))] for n in INT64},
    **{f"host at {ns}": [(4, host(ns))] for ns in INT64},
    "lengths that no record has": [(kind, bytes(n)) for kind in (1, 2, 3, 4) for n in (0, 1, 51, 53, 60_000)],
    "kinds that nobody knows": [(kind, b"") for kind in (0, 5, 99, 2**31, 2**32 - 1)],
    "deep JSON": [(2, b"[" * 50_000), (3, b'["a",1,' + b"[" * 30_000)],
}  # fmt: skip


LIARS = tuple(f"pi-{number:03d}" for number in range(1, len(ABSURD) + 1))


@contextmanager
def bench(path: Path, liars: Sequence[str] = LIARS) -> Iterator[RunFolder]:
    """A finished run of the honest board pi-000, whose training of 30 s took 2 W, and of `liars`."""
    names = ["pi-000", *liars]
    made = a_run(path / "run", "bench", names)
    journal, devices = made.journal, tuple(range(len(names)))
    journal.append(StepOpened(0, devices, (0,) * len(names), (50.0,) * len(names)))
    for device in devices:
        journal.append(ClockProbed(-1, device, "hello", BOOT, 0, 0.0, 1e6, 8, (0, 0, 0, 0), 1.0))
        journal.append(OrderGiven(0, device, f"t{device or ''}", "train", 0))
    journal.append(OutcomeDecided(1, 0, "t", Outcome.WASTED, "absent"))
    journal.append(StepClosed(0, 0, (0,), (), 0.25, 1.5, 3.0))
    drain(made, "pi-000", HONEST)
    made.update(start_device_ns=0, end_device_ns=60 * S, state=RunState.FINISHED)
    yield made
    made.close()


def drain(folder: RunFolder, name: str, records: Sequence[Record]) -> None:
    folder.records.insert(name, f"of {name}", [(seq, *record) for seq, record in enumerate(records, 1)])


def shown(folder: RunFolder) -> tuple[str, ...]:
    """Export and report everything; the honest board has its result. The report's flags."""
    export_run(folder)
    (train,) = [
        row
        for row in pq.read_table(folder.path / "ledger.parquet").to_pylist()
        if row["device"] == "pi-000" and row["phase"] == "train"
    ]
    assert train["gross_j"] == pytest.approx(60.0 / TRAITS.load("smartpower2").gain)
    (evidence,) = read_runs([folder.path])
    return summarise(evidence).flags


def test_whatever_boards_say_the_honest_one_has_its_result(tmp_path: Path) -> None:
    with bench(tmp_path) as folder:
        for name, lie in zip(LIARS, ABSURD.values(), strict=True):
            drain(folder, name, [*HONEST[:40], *lie, *HONEST[40:]])
        flags = shown(folder)
        reasons = dict(zip(LIARS, ABSURD, strict=True))
        dead = {reasons[letter.device] for letter in folder.records.dead_letters()}
    for lie in ("watts 1e+308", "one more reading at 9223372036854775807", f"context with offset {2**70}"):
        assert lie in dead
    for lie in ("watts nan", "watts 40.0", "host of nan", "a hundred readings at one stamp"):
        assert lie not in dead
    assert any("drained records could not be decoded" in flag for flag in flags)


def test_a_board_whose_records_break_the_sums_is_a_flag_on_that_board(tmp_path: Path) -> None:
    """As a version left them that took everything: such records are in run folders."""
    with bench(tmp_path, ["pi-001", "pi-002"]) as folder:
        for name in ("pi-001", "pi-002"):
            drain(folder, name, HONEST)
        rows = folder.records._connection
        for second in range(5):
            payload = reading((15 + second) * S + S // 2, 1e308)
            rows.execute("INSERT INTO record VALUES ('pi-001', 'x', ?, 1, ?)", (second, payload))
        rows.execute("INSERT INTO record VALUES ('pi-002', 'x', 1, 2, ?)", (b"no phase",))
        flags = shown(folder)
    assert [flag.split(":")[0] for flag in flags if "left out of every sum" in flag] == ["pi-001", "pi-002"]


def test_a_clock_echo_of_a_version_that_took_everything_moves_no_other_board(tmp_path: Path) -> None:
    with bench(tmp_path, ["pi-001"]) as folder:
        folder.journal.append(ClockProbed(-1, 1, "during", BOOT, 9, -9.2e18, 1e6, 8, (0, 0, 0, 0), 1.0))
        drain(folder, "pi-001", HONEST)
        shown(folder)


@pytest.mark.parametrize("far_ns", [2**63 - 1, -(2**63), 11 * 366 * 86_400 * S, -11 * 366 * 86_400 * S])
@pytest.mark.parametrize("both", [True, False])
def test_an_echo_more_than_ten_years_away_is_no_clock(far_ns: int, both: bool) -> None:
    honest = [ClockExchange(100 + i, 5_000 + i, 5_001 + i, 110 + i) for i in range(8)]
    assert clock_probed(honest, 0, "hello", BOOT, DeviceClock()).offset_ns == pytest.approx(4895.5, abs=1)
    lie = ClockExchange(100, far_ns, far_ns if both else 5_001, 110)
    with pytest.raises(ValueError, match="more than ten years from this machine's clock"):
        clock_probed([*honest, lie], 0, "hello", BOOT, DeviceClock())


NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from([*INT64, *HUGE]),
    st.floats(),
    st.sampled_from(FLOATS),
    st.booleans(),
    st.none(),
)
STAMPS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 70 * S))
WORDS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "t",
            "t1",
            BOOT,
            "train",
            "upload",
            "idle",
            "lost",
            EventKind.AGENT_STARTED,
            EventKind.RECORD_CONTEXT_BEGINS,
        ]
    ),
    st.sampled_from(
        [
            EventKind.METER_DESCRIBED,
            EventKind.METER_RESTARTED,
            EventKind.METER_LOST,
            EventKind.SPOOL_STATE,
            EventKind.TRAIN_STARTED,
        ]
    ),
)
JSON = st.recursive(
    st.one_of(NUMBERS, WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
)
KEYS = st.sampled_from(
    [*RecordContext.__dataclass_fields__, *MeterDescription.__dataclass_fields__, "controller", "depth"]
)
DETAILS = st.one_of(st.dictionaries(KEYS, st.one_of(NUMBERS, WORDS, JSON)).map(json.dumps), WORDS)
RECORDS = st.one_of(
    st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=100)),
    st.builds(
        lambda ns, v, a, w, wh, flags, ms: (1, struct.pack("<qddddIq", ns, v, a, w, wh, flags, ms)),
        STAMPS, *[st.floats()] * 4, st.integers(0, 31), st.integers(-1, 2**32 - 1),
    ),
    st.builds(
        lambda *values: (2, json.dumps(values).encode()),
        WORDS, WORDS, NUMBERS, STAMPS | NUMBERS, STAMPS | NUMBERS, WORDS, WORDS, NUMBERS,
    ),
    st.builds(lambda *values: (3, json.dumps(values).encode()), WORDS, STAMPS | NUMBERS, DETAILS),
    st.builds(
        lambda ns, f, n: (4, struct.pack("<qddqddqqq", ns, f[0], f[1], n[0], f[2], f[3], n[1], n[2], n[3])),
        STAMPS, st.tuples(*[st.floats()] * 4), st.tuples(*[STAMPS] * 4),
    ),
)  # fmt: skip


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(said=st.lists(st.lists(RECORDS, max_size=30), min_size=4, max_size=4))
def test_drawn_records_cost_no_other_board_its_result(said: list[list[Record]]) -> None:
    with TemporaryDirectory() as path, bench(Path(path), LIARS[:4]) as folder:
        for name, records in zip(LIARS, said, strict=False):
            drain(folder, name, [*HONEST[:30], *records, *HONEST[30:]])
        shown(folder)
