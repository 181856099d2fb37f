"""Phases follow each other without a hole, even over a crash."""

import itertools
from pathlib import Path

from agent_ports import Follower, Records
from roambench.agent.readings.timeline import PhaseTimeline
from roambench.contract.device_time import DeviceClock
from roambench.contract.phases import Moved, Phase, PhaseSpan
from roambench.contract.records import RecordKind, phase_from_bytes


def _timeline(
    folder: Path, boot: str = "boot-1", changed: list[tuple[Phase, float]] | None = None
) -> tuple[PhaseTimeline, list[PhaseSpan]]:
    spans: list[PhaseSpan] = []

    def record(kind: RecordKind, payload: bytes) -> None:
        if kind is RecordKind.PHASE:
            spans.append(phase_from_bytes("pi-01", payload))

    heard = changed if changed is not None else []
    follower = Follower(lambda phase, ns, rate: heard.append((phase, rate)))
    timeline = PhaseTimeline("pi-01", boot, DeviceClock(), folder, Records(record), [follower])
    return timeline, spans


def test_spans_follow_each_other_without_a_hole(tmp_path: Path) -> None:
    timeline, spans = _timeline(tmp_path)
    timeline.resume()
    timeline.enter(Phase.DOWNLOAD, 3, order_id="o", train_order_id="o", mbit_s=20.0)
    timeline.enter(Phase.TRAIN, 3, order_id="o", train_order_id="o", moved=Moved(1000))
    timeline.enter(Phase.WAIT, 3)
    timeline.close()
    assert [span.phase for span in spans] == [Phase.IDLE, Phase.DOWNLOAD, Phase.TRAIN, Phase.WAIT]
    assert all(a.end_ns == b.start_ns for a, b in itertools.pairwise(spans))
    assert [span.transferred_bytes for span in spans] == [0, 1000, 0, 0]


def test_the_power_model_hears_every_border_with_its_rate(tmp_path: Path) -> None:
    heard: list[tuple[Phase, float]] = []
    timeline, _ = _timeline(tmp_path, changed=heard)
    timeline.resume()
    timeline.enter(Phase.UPLOAD, 0, mbit_s=12.5)
    timeline.enter(Phase.WAIT, 0)
    assert heard == [(Phase.IDLE, 0.0), (Phase.UPLOAD, 12.5), (Phase.WAIT, 0.0)]


def test_a_killed_agent_closes_the_span_where_it_was_last_alive_and_names_the_hole(tmp_path: Path) -> None:
    first, _ = _timeline(tmp_path)
    first.resume()
    start_ns = first.enter(Phase.TRAIN, 4, order_id="o", train_order_id="o")
    first.alive(start_ns + 1000)  # then SIGKILL: no close
    second, spans = _timeline(tmp_path)
    resumed_ns = second.resume()
    interrupted, hole = spans
    assert (interrupted.phase, interrupted.start_ns, interrupted.end_ns) == (
        Phase.TRAIN,
        start_ns,
        start_ns + 1000,
    )
    assert (hole.phase, hole.start_ns) == (Phase.LOST, start_ns + 1000)
    assert second.current is not None
    assert second.current.start_ns == hole.end_ns == resumed_ns


def test_after_a_reboot_no_hole_is_claimed_because_the_clock_is_another(tmp_path: Path) -> None:
    first, _ = _timeline(tmp_path)
    first.resume()
    second, spans = _timeline(tmp_path, boot="boot-2")
    second.resume()
    assert [(span.phase, span.boot_id) for span in spans] == [(Phase.IDLE, "boot-1")]


def test_a_damaged_phase_file_is_reported_and_survived(tmp_path: Path) -> None:
    (tmp_path / "phase.json").write_bytes(b"\xff\x00 nonsense")
    events: list[RecordKind] = []
    records = Records(lambda kind, payload: events.append(kind))
    timeline = PhaseTimeline("pi-01", "boot", DeviceClock(), tmp_path, records)
    timeline.resume()
    assert events == [RecordKind.EVENT]
    assert timeline.current is not None
