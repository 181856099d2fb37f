"""What a report says of the boards themselves: meter, clock, spool, temperature, throttling."""

from __future__ import annotations

import json
import math
import os

import pytest

from page_data import page_data
from roambench.contract.events import EventKind
from roambench.contract.phases import Phase
from roambench.contract.records import AgentEvent, HostSample
from roambench.meters.traits import MeterDescription
from roambench.report.report import report
from roambench.report.summaries.instrument import InstrumentCost
from roambench.rounds.records import ClockProbed, FleetEvent, OrderGiven

S = 1_000_000_000
AT = 100 * S


def probed(at_s: float, bound_ms: float, device: int = 0, offset_ms: float = 3.0) -> ClockProbed:
    ms = 1e6
    return ClockProbed(
        0, device, "before", "boot", AT + round(at_s * S), offset_ms * ms, bound_ms * ms, 8, (0, 1, 2, 3)
    )


def described(reader: str = "") -> AgentEvent:
    meter = MeterDescription(
        "smartpower2", "/dev/ttyUSB0", "smartpower2", serial="SP2-7", remote_reader=reader
    )
    return meter.to_event(AT)


def shown(path):
    made = report([path])
    (run,) = made.summaries
    return made, run


def test_a_meter_that_its_own_board_reads_needs_no_offset_and_raises_no_flag(hand_made):
    made, run = shown(hand_made(events=[described()], extra=[probed(1, 900.0), probed(99, 900.0)]))
    text = made.html()
    assert "the board itself: one clock" in text
    assert "not needed" in text
    assert "serial SP2-7" in text
    assert not any(flag.startswith("clock of") for flag in run.flags)


@pytest.mark.parametrize(("bound_ms", "verdict"), [(40.0, None), (150.0, "flagged"), (450.0, "refused")])
def test_a_meter_read_elsewhere_is_flagged_above_100_ms_and_refused_above_400(hand_made, bound_ms, verdict):
    extra = [probed(at, bound_ms, device) for device in (0, 1) for at in (0, 50, 100)]
    made, run = shown(hand_made(events=[described("controller")], extra=extra))
    flags = [flag for flag in run.flags if "pi-01" in flag and "controller reads its meter" in flag]
    assert len(flags) == (verdict is not None)
    if verdict:
        assert verdict in flags[0]
    (board, _) = json.loads(made.json())["runs"][0]["board_states"]
    assert board["clock"]["case"] == "remote"
    assert board["clock"]["verdict"] == (verdict or "good")
    assert board["clock"]["offset_ms"] == pytest.approx(3.0)


def test_what_a_spool_lost_is_told_and_an_empty_one_is_silent(hand_made):
    state = {
        "influxdb": {"depth": 3, "dropped": 1200, "dead": 2},
        "controller": {"depth": 4, "dropped": 0, "dead": 0},
    }
    early = AgentEvent(
        EventKind.SPOOL_STATE, AT, json.dumps({"influxdb": {"depth": 9, "dropped": 0, "dead": 0}})
    )
    made, run = shown(hand_made(events=[early, AgentEvent(EventKind.SPOOL_STATE, AT + S, json.dumps(state))]))
    assert (
        "pi-01: spool for influxdb: 1,200 records dropped, 2 refused for good, 3 not yet delivered at the "
        "end (roambench fleet fetch BENCH RUN --dead-letters tries again)" in run.flags
    )
    assert not any("controller" in flag for flag in run.flags)
    (board, _) = json.loads(made.json())["runs"][0]["board_states"]
    assert board["spool"]["influxdb"] == {"depth": 3, "dropped": 1200, "dead": 2}


def saw(kind: EventKind, detail: str = "", name: str = "pi-01") -> FleetEvent:
    return FleetEvent(1, 0, name, kind, detail)


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ([], 4),  # killed: its last word is the record of before
        ([saw(EventKind.SESSION_CLOSED)], 0),
        ([saw(EventKind.SESSION_CLOSED), saw(EventKind.LEFT_IN_SPOOL, "controller 2, influxdb 3")], 3),
        ([saw(EventKind.SESSION_CLOSED), saw(EventKind.LEFT_IN_SPOOL, "controller 2")], 0),
        ([saw(EventKind.SESSION_CLOSED), saw(EventKind.LEFT_IN_SPOOL, "influxdb " + "9" * 30)], 0),
        ([saw(EventKind.SESSION_CLOSED), saw(EventKind.SESSION_OPENED), saw(EventKind.SESSION_LOST)], 4),
        ([saw(EventKind.SESSION_CLOSED, name="pi-02")], 4),
    ],
)
def test_what_is_not_yet_delivered_is_what_the_agent_said_as_it_left(hand_made, said, left):
    """Its record of the spool's state is one of those that were still to be sent."""
    state = {name: {"depth": 4, "dropped": 0, "dead": 0} for name in ("controller", "influxdb")}
    event = AgentEvent(EventKind.SPOOL_STATE, AT, json.dumps(state))
    opened = saw(EventKind.SESSION_OPENED)
    made, run = shown(hand_made(own_events={"pi-01": [event]}, extra=[opened, *said]))
    flags = [flag for flag in run.flags if "not yet delivered" in flag]
    assert bool(flags) is bool(left)
    assert not flags or f" {left} not yet delivered" in flags[0]
    board = json.loads(made.json())["runs"][0]["board_states"][0]
    assert board["spool"]["influxdb"]["depth"] == left


@pytest.mark.parametrize(
    "detail", ["", "[]", '{"a":1}', '{"a":{"depth":-1,"dropped":0,"dead":0}}', "[" * 5000]
)
def test_a_damaged_spool_state_is_no_state(hand_made, detail):
    _, run = shown(hand_made(events=[AgentEvent(EventKind.SPOOL_STATE, AT, detail)]))
    assert run.boards[0].spools == ()


def host(at_s: float, bits: int = 0, celsius: float = 50.0, cpu_s: float = 0.0) -> HostSample:
    # The share of a first sample is since the machine came up.
    share = 1.0 if at_s == 5 else 0.5
    return HostSample(AT + round(at_s * S), share, cpu_s, 10**8, celsius, 1400.0, 0, 0, bits)


def test_phases_with_a_throttle_bit_are_counted_and_flagged(hand_made):
    """Soft temperature limit (bit 3) seen from 20 s on, in the training of 14 to 34 s, gone at 35 s."""
    samples = [host(5), host(20, 8, 61.0), host(30, 8, 63.0), host(35), host(90, cpu_s=17.0)]
    made, run = shown(hand_made(host=samples))
    state = run.boards[0]
    assert state.throttled_phases() == {Phase.DOWNLOAD: 1, Phase.TRAIN: 1, Phase.WAIT: 1, Phase.IDLE: 1}
    assert state.throttle_names() == ("soft temperature limit",)
    assert any(
        flag.startswith("pi-01: soft temperature limit in 1 of download, 1 of train") for flag in run.flags
    )
    assert state.host is not None
    assert (state.host.mean_c, state.host.highest_c) == (pytest.approx(54.8), 63.0)
    assert state.host.cpu_share == pytest.approx(0.5)
    assert state.host.agent_share == pytest.approx(17.0 / 85.0)
    figures = page_data(made.html())["figures"]
    (panels,) = [figure for figure in figures if figure["key"] == "host-0"]
    assert [trace["y"] for trace in panels["data"]] == [[None, 61.0, 63.0, 50.0, 50.0]] * 2
    assert panels["data"][0]["marker"]["size"] == [0.1, 6, 6, 0.1, 0.1]
    labels = [button["label"] for button in panels["layout"]["updatemenus"][0]["buttons"]]
    assert labels == ["temperature", "CPU clock", "CPU load", "agent's CPU"]


def test_an_emulated_board_tells_its_agents_cpu_only(hand_made):
    samples = [HostSample(AT + at * S, agent_cpu_s=0.1 * at) for at in (0, 50, 100)]
    made, run = shown(hand_made(host=samples))
    assert run.boards[0].host is not None
    assert run.boards[0].host.agent_share == pytest.approx(0.1)
    assert math.isnan(run.boards[0].host.mean_c)
    (board, _) = json.loads(made.json())["runs"][0]["board_states"]
    assert board["host"]["mean_c"] is None
    assert board["host"]["knows_throttling"] is False


def test_a_run_whose_boards_say_nothing_has_no_such_tables(hand_made):
    made, run = shown(hand_made())
    assert all(state.host is None and state.meter is None for state in run.boards)
    assert "health of the boards" not in made.html()


def test_what_the_instrument_costs_is_told_where_it_was_measured_beside_the_run(hand_made):
    path = hand_made()
    assert shown(path)[1].instrument is None
    beside = path.parent / "overhead"
    beside.mkdir()
    (beside / "overhead.json").write_text('{"verdict": "the instrument costs 31 ± 4 mW, 1.6% of idle"}')
    old = path.parent / "old"
    old.mkdir()
    (old / "overhead.json").write_text('{"verdict": "the instrument costs nothing"}')
    os.utime(old / "overhead.json", (1, 1))
    made, run = shown(path)
    sentence = "the instrument costs 31 ± 4 mW, 1.6% of idle (measured in overhead)"
    assert run.instrument is not None
    assert run.instrument.sentence == sentence
    assert sentence in made.html()
    assert json.loads(made.json())["runs"][0]["instrument"] == sentence
    (path / "overhead.json").write_text('{"verdict": "its own"}')
    os.utime(path / "overhead.json", (1, 1))
    assert shown(path)[1].instrument == InstrumentCost("demo-mohawk", "its own")  # the run's own comes first


@pytest.mark.parametrize(
    "text", ["", "[1]", '{"verdict": 7}', "[" * 5000, '{"verdict": "' + "x" * 400 + '"}']
)
def test_a_damaged_overhead_file_is_none(hand_made, text):
    path = hand_made()
    (path / "overhead.json").write_text(text)
    assert shown(path)[1].instrument is None


def test_links_clipped_to_the_port_are_counted(hand_made):
    rates = (
        ("wifi", 1000.0, 60.0),
        ("wifi", 1000.0, 0.0),
        ("lte", 10.0, 10.0),
    )  # modelled, paced (0: native)
    orders = [
        OrderGiven(1, 0, f"c{modelled}{paced}", "upload", 0, "", "", 50.0, link, modelled, paced)
        for link, modelled, paced in rates
    ]
    _, run = shown(hand_made(extra=orders))
    assert any(flag.startswith("1 of 2 transfers were to be faster than") for flag in run.flags)
