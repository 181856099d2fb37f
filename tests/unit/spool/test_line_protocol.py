"""Lines as they should be, and as a real InfluxDB 1.6 reads them back."""

import dataclasses
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from influx_servers import Influxd
from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.printable import printable
from roambench.contract.records import (
    AgentEvent,
    HostSample,
    Reading,
    ReadingFlag,
    RecordKind,
    phase_to_bytes,
)
from roambench.spool.influx import InfluxWriter
from roambench.spool.influx_schema import BENCH, FIELDS, MEASUREMENTS, PHASE_TAGGED, TAGS
from roambench.spool.influx_settings import InfluxSettings
from roambench.spool.line_protocol import LineEncoder, bench_line
from roambench.spool.record_context import RecordContext

CONTEXT = RecordContext("0123456789abcdef", "0/1.0", 1_700_000_000_000_000_000, "smartpower2", "mohawk")
TAG_TEXT = ",boot=01234567,device=pi-01,meter=smartpower2,run=mohawk"


class OneContext:
    """Every record is in the same record context, or in none."""

    def __init__(self, context: RecordContext | None = CONTEXT) -> None:
        self._context = context

    def context_of(self, seq: int) -> RecordContext | None:
        return self._context

    def context_of_boot(self, boot_id: str) -> RecordContext | None:
        return None

    def uuid_of(self, seq: int) -> str:
        return "ab" * 16


def encoder(context: RecordContext | None = CONTEXT, device: str = "pi-01") -> LineEncoder:
    return LineEncoder(device, OneContext(context))


def test_a_reading_is_one_point_whose_floats_are_floats_and_whose_integers_are_integers():
    reading = Reading(5_000_001_234, 5.0, 0.66, 3.0, 0.0, ReadingFlag.INCONSISTENT | ReadingFlag.BURST, 41)
    assert encoder().line(2007, RecordKind.READING, reading.to_bytes()) == (
        f"power{TAG_TEXT} flags=9i,meter_ms=41i,volts=5.0,amps=0.66,watts=3.0,wh=0.0,seq=2007i,"
        f'monotonic_ns=5000001234i,spool="{"ab" * 16}" 1700000005000001007'
    )


def test_a_field_the_meter_does_not_report_is_left_out_and_a_point_is_never_empty():
    reading = Reading(1000, math.nan, math.inf, -math.inf, math.nan)
    line = encoder().line(1, RecordKind.READING, reading.to_bytes())
    assert line.split(" ")[1] == (f'flags=0i,meter_ms=-1i,seq=1i,monotonic_ns=1000i,spool="{"ab" * 16}"')
    blank = encoder().line(1, RecordKind.HOST, HostSample(1000).to_bytes())
    assert blank.split(" ")[1] == f'seq=1i,monotonic_ns=1000i,spool="{"ab" * 16}"'


def test_two_records_with_one_stamp_are_two_points_and_a_repeat_is_the_same_point():
    payload = Reading(77_777, 5.0, 1.0, 5.0).to_bytes()
    lines = [encoder().line(seq, RecordKind.READING, payload) for seq in (998, 999, 1000, 998)]
    stamps = [line.rsplit(" ", 1)[1] for line in lines]
    assert stamps == [
        "1700000000000077998",
        "1700000000000077999",
        "1700000000000077000",
        "1700000000000077998",
    ]
    assert lines[0] == lines[3]


def test_a_phase_lies_at_its_start_and_under_the_boot_it_was_lived_in():
    span = PhaseSpan("pi-01", "fedcba9876543210", Phase.TRAIN, 3, 10**9, 3 * 10**9, "o1", "o1", 2_600_000)
    earlier = dataclasses.replace(CONTEXT, boot_id="fedcba9876543210", unix_minus_device_ns=10**18)

    class TwoBoots(OneContext):
        def context_of_boot(self, boot_id: str) -> RecordContext | None:
            return earlier if boot_id == earlier.boot_id else None

    line = LineEncoder("pi-01", TwoBoots()).line(5, RecordKind.PHASE, phase_to_bytes(span))
    assert line == (
        "phase,boot=fedcba98,device=pi-01,meter=smartpower2,phase=train,run=mohawk start_ns=1000000000i,"
        "end_ns=3000000000i,end_unix_ms=1000000003000i,step=3i,transferred_bytes=2600000i,first_byte_ns=0i,last_byte_ns=0i,"
        'stalls_ns="[]",boot_id="fedcba9876543210",order_id="o1",'
        'train_order_id="o1",seq=5i,monotonic_ns=1000000000i,spool="' + "ab" * 16 + '" 1000000001000000005'
    )


def test_the_stalls_of_a_transfer_are_text():
    span = PhaseSpan("pi-01", "boot", Phase.UPLOAD, 3, 1, 9, "u", "o", 5, 2, 8, ((3, 4), (5, 7)))
    assert ',stalls_ns="[[3,4],[5,7]]",' in encoder().line(5, RecordKind.PHASE, phase_to_bytes(span))


def test_tags_carry_nothing_that_line_protocol_cannot_spell():
    odd = RecordContext("boot", "0/1.0", 0, "a meter=1,2", "run\\")
    reading = Reading(0, 5.0, 1.0, 5.0).to_bytes()
    line = encoder(odd, "pi\n\\01").line(1, RecordKind.READING, reading)
    assert line.startswith("power,boot=boot,device=pi__01,meter=a\\ meter\\=1\\,2,run=run_ flags=")
    between_runs = dataclasses.replace(CONTEXT, run="", meter="")
    assert ",run" not in encoder(between_runs).line(1, RecordKind.READING, reading)
    assert ",meter=" not in encoder(between_runs).line(1, RecordKind.READING, reading)


@pytest.mark.parametrize(
    ("kind", "payload", "context"),
    [
        (RecordKind.READING, b"half a reading", CONTEXT),
        (RecordKind.EVENT, b"{", CONTEXT),
        (RecordKind.EVENT, AgentEvent("far", 2**63 - 1).to_bytes(), CONTEXT),
        (RecordKind.EVENT, AgentEvent("far", -(2**70)).to_bytes(), CONTEXT),
        (
            RecordKind.PHASE,
            phase_to_bytes(PhaseSpan("pi", "b", Phase.IDLE, 2**64, 1, 2, "", "", 0)),
            CONTEXT,
        ),
        (RecordKind.READING, Reading(0, 5.0, 1.0, 5.0).to_bytes(), None),
    ],
)
def test_what_cannot_be_a_point_is_a_value_error(kind, payload, context):
    with pytest.raises(ValueError):
        encoder(context).line(1, kind, payload)


def types_of(line: str) -> dict[str, type]:
    """Field types of a line without spaces or commas in its strings."""
    kinds = {}
    for field in line.split(" ")[1].split(","):
        name, value = field.split("=", 1)
        kinds[name] = str if value.startswith('"') else int if value.endswith("i") else float
    return kinds


def test_every_kind_of_record_has_exactly_the_fields_of_the_schema():
    span = PhaseSpan("pi-01", "b", Phase.TRAIN, 3, 1, 2, "o", "t", 0)
    full = {
        RecordKind.READING: Reading(0, 5.0, 1.0, 5.0, 0.1, ReadingFlag.NONE, 7).to_bytes(),
        RecordKind.PHASE: phase_to_bytes(span),
        RecordKind.EVENT: AgentEvent("k", 1, "d").to_bytes(),
        RecordKind.HOST: HostSample(1, 0.5, 1.0, 2, 3.0, 4.0, 5, 6, 7).to_bytes(),
    }
    for kind, payload in full.items():
        line = encoder(dataclasses.replace(CONTEXT, bench="lab", system="mohawk")).line(1, kind, payload)
        assert line.startswith(f"{MEASUREMENTS[kind]},")
        assert types_of(line) == FIELDS[MEASUREMENTS[kind]]
        tags = [tag.split("=")[0] for tag in line.split(" ")[0].split(",")[1:]]
        assert tags == sorted((*TAGS, *(["phase"] if MEASUREMENTS[kind] in PHASE_TAGGED else [])))
    values = {name: kind(1) for name, kind in FIELDS[BENCH].items()}
    assert types_of(bench_line("pi-01", CONTEXT, values, 1)) == FIELDS[BENCH]


@pytest.fixture(scope="module")
def written(influxd: Influxd):
    """Writes lines to a database of a real server and gives the rows of a measurement back."""
    influxd.create_database("lines")
    writer = InfluxWriter(InfluxSettings(influxd.url, "lines", api="v1"), print)

    def write(line: str, measurement: str) -> list[dict[str, object]]:
        writer.write(line.encode())
        rows = influxd.rows(f'SELECT * FROM "{measurement}"', "lines")
        influxd.query(f'DROP MEASUREMENT "{measurement}"', "lines")
        return rows

    yield write
    writer.close()


TEXT = st.text(st.characters(codec="utf-8"), max_size=40)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=TEXT, detail=TEXT, ns=st.integers(-(2**59), 2**61))
def test_a_real_server_gives_any_event_back_letter_for_letter(written, kind, detail, ns):
    """But for an unknown kind, which is made printable as it is read."""
    line = encoder().line(1234, RecordKind.EVENT, AgentEvent(kind, ns, detail).to_bytes())
    (row,) = written(line, "event")
    assert (row["kind"], row["detail"], row["monotonic_ns"], row["seq"]) == (
        printable(kind),
        detail,
        ns,
        1234,
    )


NUMBER = st.floats(allow_nan=True, allow_infinity=False, width=64)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(volts=NUMBER, amps=NUMBER, watts=NUMBER, hours=NUMBER)
def test_a_real_server_gives_any_reading_back_bit_for_bit(written, volts, amps, watts, hours):
    reading = Reading(123_456_789, volts, amps, watts, hours)
    (row,) = written(encoder().line(7, RecordKind.READING, reading.to_bytes()), "power")
    for name, value in (("volts", volts), ("amps", amps), ("watts", watts), ("wh", hours)):
        found = row.get(name)
        assert (found is None and math.isnan(value)) or float(found) == value
