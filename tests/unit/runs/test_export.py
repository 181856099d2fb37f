"""The run as Parquet, and the energy it holds."""

from __future__ import annotations

import math

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from roambench.contract.phases import Outcome, Phase, PhaseSpan
from roambench.contract.records import HostSample, Reading, ReadingFlag, RecordKind, phase_to_bytes
from roambench.energy.readings.timeline import partition_check
from roambench.experiment.sections import Experiment
from roambench.meters.traits import TRAITS
from roambench.rounds.records import CloudAggregated, OrderGiven, OutcomeDecided, StepClosed, StepOpened
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.measured.accounts import account_run
from small_runs import a_run

S = 1_000_000_000
SP2 = TRAITS.load("smartpower2")  # what an undescribed meter is taken for


@pytest.fixture
def run(tmp_path):
    """One board at 2 W for 60 s: idle to 10, train to 40, idle to 60. Its training of step 0 is wasted."""
    folder = a_run(tmp_path / "demo", "local")
    journal = folder.journal
    journal.append(StepOpened(0, (0,), (0,), (50.0,)))
    journal.append(OrderGiven(0, 0, "t", "train", 0))
    journal.append(StepClosed(0, 0, (0,), (), 0.25, 1.5, 3.0))
    journal.append(CloudAggregated(1, (), (), "aa"))
    journal.append(OutcomeDecided(1, 0, "t", Outcome.WASTED, "absent"))
    journal.append(StepClosed(1, 0, (), (), None, None, 1.0))
    readings = [
        (RecordKind.READING, Reading(second * S, 5.0, 0.4, 2.0, math.nan).to_bytes())
        for second in range(-2, 63)
    ]
    # An inconsistent line is stored and exported, but its 9 W are never counted.
    inconsistent = Reading(30 * S + S // 2, 5.0, 0.4, 9.0, math.nan, ReadingFlag.INCONSISTENT)
    readings.append((RecordKind.READING, inconsistent.to_bytes()))
    phases = [
        PhaseSpan("pi-01", "b", Phase.IDLE, -1, 0, 10 * S),
        PhaseSpan("pi-01", "b", Phase.TRAIN, 0, 10 * S, 40 * S, "t", "t"),
        PhaseSpan("pi-01", "b", Phase.IDLE, 0, 40 * S, 60 * S),
    ]
    records = readings + [(RecordKind.PHASE, phase_to_bytes(span)) for span in phases]
    folder.records.insert("pi-01", "s", [(seq, *record) for seq, record in enumerate(records)])
    folder.update(start_device_ns=0, end_device_ns=60 * S, state=RunState.FINISHED)
    yield folder
    folder.close()


def test_the_ledger_of_a_constant_board_is_watts_times_seconds(run):
    paths = export_run(run)
    assert [path.name for path in paths] == [
        "readings.parquet", "phases.parquet", "ledger.parquet", "steps.parquet", "host.parquet",
    ]  # fmt: skip
    ledger = pq.read_table(run.path / "ledger.parquet").to_pylist()
    (train,) = [row for row in ledger if row["phase"] == "train"]
    assert train["gross_j"] == pytest.approx(60.0 / SP2.gain)
    assert (train["outcome"], train["step"], train["train_order_id"]) == ("wasted", 0, "t")
    assert [row["outcome"] for row in ledger if row["phase"] == "idle"] == [None, None]
    assert sum(row["gross_j"] for row in ledger) == pytest.approx(120.0 / SP2.gain)


def test_phases_are_exported_with_all_that_a_transfer_was_stamped_with(run):
    down = PhaseSpan(
        "pi-01", "b", Phase.DOWNLOAD, 0, 2 * S, 6 * S, "t", "t", 9, 3 * S, 5 * S, ((4 * S, 4 * S + 7),)
    )
    run.records.insert("pi-01", "s", [(1000, RecordKind.PHASE, phase_to_bytes(down))])
    export_run(run)
    rows = pq.read_table(run.path / "phases.parquet").to_pylist()
    (row,) = [row for row in rows if row["phase"] == "download"]
    assert (row["first_byte_ns"], row["last_byte_ns"]) == (3 * S, 5 * S)
    assert row["stalls_ns"] == [[4 * S, 4 * S + 7]]
    assert [row["stalls_ns"] for row in rows if row["phase"] == "train"] == [[]]


def test_host_samples_are_exported_as_they_came_in_order_of_time(run):
    samples = [HostSample(2 * S, 0.25, 1.5, 300_000_000, 61.2, 1200.0, 10, 20, 0x80008), HostSample(S)]
    rows = [(1000 + seq, RecordKind.HOST, sample.to_bytes()) for seq, sample in enumerate(samples)]
    run.records.insert("pi-01", "s", rows)
    export_run(run)
    early, late = pq.read_table(run.path / "host.parquet").to_pylist()
    assert late == {
        "device": "pi-01", "monotonic_ns": 2 * S, "cpu_share": 0.25, "agent_cpu_s": 1.5,
        "memory_used_bytes": 300_000_000, "temperature_c": 61.2, "cpu_mhz": 1200.0, "sent_bytes": 10,
        "received_bytes": 20, "throttle_bits": 0x80008,
    }  # fmt: skip
    assert (early["monotonic_ns"], early["throttle_bits"]) == (S, -1)
    assert math.isnan(early["temperature_c"])


def test_tables_of_many_boards_are_written_one_board_at_a_time(run):
    """A month of 36 boards has 96 million readings."""
    for board in ("pi-01", "pi-02"):
        run.records.insert(board, "t", [(1, RecordKind.HOST, HostSample(S).to_bytes())])
    export_run(run)
    file = pq.ParquetFile(run.path / "host.parquet")
    assert file.num_row_groups == 2
    assert file.read()["device"].to_pylist() == ["pi-01", "pi-02"]


def test_readings_are_exported_raw_and_steps_with_what_is_unknown_as_null(run):
    export_run(run)
    readings = pq.read_table(run.path / "readings.parquet")
    assert readings.num_rows == 66
    assert pc.max(readings["watts"]).as_py() == 9.0
    assert readings["device"].to_pylist()[0] == "pi-01"
    steps = pq.read_table(run.path / "steps.parquet").to_pylist()
    assert steps[0]["accuracy"] == 0.25
    assert steps[1] == {
        "step": 1, "present": None, "aggregated": 0, "outstanding": 0, "participating_aps": 0,
        "cloud": True, "accuracy": None, "loss": None, "wall_s": 1.0,
    }  # fmt: skip


def test_an_interrupted_run_can_be_exported_by_a_reader_of_its_folder(run):
    run.update(state=RunState.RUNNING, end_device_ns=None)
    run.close()
    with RunFolder.open(run.path) as reader:
        assert reader.info.state is RunState.INTERRUPTED
        export_run(reader)
    ledger = pq.read_table(run.path / "ledger.parquet").to_pylist()
    assert sum(row["duration_s"] for row in ledger) == pytest.approx(62.0)  # to the last reading


def test_a_run_with_nothing_measured_exports_empty_tables(tmp_path):
    with RunFolder.create(
        tmp_path / "r", Experiment(seed=1), run_id="r", system="m", trace_hash="", fleet="rehearsal",
        device_names=["pi-01"],
    ) as folder:  # fmt: skip
        export_run(folder)
    for name in ("readings", "phases", "ledger", "steps"):
        assert pq.read_table(tmp_path / "r" / f"{name}.parquet").num_rows == 0


def test_phases_partition_the_run_also_where_nobody_stamped(run):
    """The agent is gone from 60 s on; the run went on to 100 s."""
    run.update(end_device_ns=100 * S)
    energy = account_run(run, tuple(run.read_log()))
    assert energy is not None
    (device,) = energy.devices
    assert partition_check(device.spans, 0, 100 * S) == []
    assert device.spans[-1].phase is Phase.LOST
    assert device.whole_run.covered_s == pytest.approx(62.0 - 0.2638)  # the last line is 0.26 s old
    assert device.whole_run.covered_s + device.whole_run.gap_s == pytest.approx(100.0)


def test_truth_counts_over_the_measured_time_only_and_only_where_it_is_known(run):
    truth = run.path / "truth" / "pi-01.csv"
    truth.write_text(f"ns,watts,idle_watts\n{-10 * S},2.0\n{100 * S},\n")
    records = tuple(run.read_log())
    energy = account_run(run, records)
    assert energy is not None
    assert energy.devices[0].truth.whole_j == pytest.approx(120.0)
    truth.write_text(f"ns,watts,idle_watts\n{-10 * S},2.0\n{30 * S},nan\n")
    energy = account_run(run, records)
    assert energy is not None
    assert energy.devices[0].truth is None
