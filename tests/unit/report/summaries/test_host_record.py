"""A sum of all of a board's samples; of many a share is shown, and all where throttle bits change."""

from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import HostSample
from roambench.contract.throttling import throttled_spans
from roambench.report.summaries import board_state
from roambench.report.summaries.board_state import HostRecord
from roambench.runs.record_store import HOST_DTYPE


def test_of_many_samples_a_share_is_kept_that_throttles_the_same_phases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = np.random.default_rng(4)
    table = np.zeros(3_000, HOST_DTYPE)
    table["monotonic_ns"] = 5_000 * np.arange(3_000)
    table["temperature_c"] = draw.normal(50.0, 5.0, 3_000)
    table["throttle_bits"] = np.repeat(draw.choice([-1, 0, 0, 4, 1 << 18], 300), 10)
    monkeypatch.setattr(board_state, "_MOST_SHOWN", 100)
    record = HostRecord.of(table)
    every = [HostSample(*row) for row in table.tolist()]
    assert record.summary.samples == 3_000
    assert record.summary.mean_c == pytest.approx(table["temperature_c"].mean(), rel=1e-12)
    assert len(record.samples) < 1_000
    stamps = np.sort(draw.integers(0, 15_000_000, 400)).tolist()
    spans = [
        PhaseSpan("pi", "b", Phase.TRAIN, 0, first, last)
        for first, last in zip(stamps[::2], stamps[1::2], strict=True)
    ]
    found = throttled_spans(spans, record.samples)
    assert found == throttled_spans(spans, every)
    assert 0 < len(found) < 200
