"""A run on virtual devices: its modelled joules from the event log, and the files that hold them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from roambench.contract.errors import RunError
from roambench.contract.link_power import LinkPower
from roambench.contract.phases import Outcome
from roambench.energy.links.models import MOHAWK, KnownLink, LinkModel, Provenance
from roambench.experiment.sections import Experiment
from roambench.experiment.simulated_section import SimulatedSection
from roambench.rounds.records import (
    CloudAggregated,
    ModelsExchanged,
    OrderAnswered,
    OrderGiven,
    OutcomeDecided,
    RoundRecord,
    StepClosed,
    StepOpened,
)
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.modelled.accounts import (
    modelled_account,
    read_link_model_json,
    save_link_model_json,
)
from small_runs import a_run

SIMULATED = {"idle_w": 2.0, "train_w": 1.0, "power_spread": 0.0}


def records() -> list[RoundRecord]:
    """Two devices train in step 0; the first uploads in step 1 and is aggregated, the other is wasted.

    Both get 20 Mbit at 20 Mbit/s (Eq. 2) in a simulated 4 s; the upload at 10 Mbit/s in 4 s. In step 1 the
    first is synchronised, the second's upload is refused.
    """
    given = [OrderGiven(0, d, f"t{d}", "train", 0, "", "cc", 900.0, "lte", 20.0) for d in (0, 1)]
    trained = [OrderAnswered(0, d, f"t{d}", "done", "", 2_500_000, 4.0, 20.0, 60, 1.5) for d in (0, 1)]
    uploads = [OrderGiven(1, d, f"u{d}", "upload", 0, f"t{d}", "", 300.0, "lte", 10.0) for d in (0, 1)]
    return [
        StepOpened(0, (0, 1), (0, 0), (900.0, 900.0)),
        *given,
        *trained,
        StepClosed(0, 0, (0, 1), (), None, None, 1.0),
        StepOpened(1, (0, 1), (0, 0), (300.0, 500.0)),
        *uploads,
        OrderAnswered(1, 0, "u0", "done", "", 2_500_000, 4.0),
        OrderAnswered(1, 1, "u1", "refused", "no", 0, 0.0),
        OutcomeDecided(1, 0, "t0", Outcome.AGGREGATED),
        OutcomeDecided(1, 1, "t1", Outcome.WASTED, "upload refused"),
        CloudAggregated(1, (0,), (1.0,), "bb"),
        OrderGiven(1, 0, "s0", "sync", 0, "", "bb", 300.0, "lte", 20.0),
        OrderAnswered(1, 0, "s0", "done", "", 2_500_000, 1.0),
        StepClosed(1, 1, (), (0,), 0.9, 0.5, 2.0),
    ]


def exchanged() -> list[RoundRecord]:
    """The first device sends 3 MB to its neighbours and gets 2 MB of them."""
    return [
        StepOpened(0, (0,), (0,), (0.0,)),
        OrderGiven(0, 0, "x0", "exchange", -1, link="wifi"),
        OrderAnswered(0, 0, "x0", "done", "", 5_000_000, 4.0, 20.0, 60, 1.5),
        ModelsExchanged(0, 0, "x0", (), (), 3_000_000, 2_000_000, 4.0, 500_000, 1.0, ""),
        OutcomeDecided(0, 0, "x0", Outcome.AGGREGATED),
        StepClosed(0, 1, (), (), None, None, 1.0),
    ]


def simulated(
    path: Path,
    config: dict[str, object] | None = None,
    *,
    fleet: str = "simulated",
    told: Sequence[RoundRecord] = (),
) -> RunFolder:
    folder = a_run(
        path,
        fleet,
        ["pi-01", "pi-02", "pi-03"],
        Experiment.model_validate(
            {
                "seed": 1,
                "simulated": {**SIMULATED, **(config or {})},
                "rounds": {"accuracy_threshold": 0.8},
            }
        ),
        run_id="demo",
        trace_hash="ab",
    )
    for record in told or records():
        folder.journal.append(record)
    return folder


DOWN_J, UP_J = 2.32744, 11.34388  # 20 Mbit over LTE at 20 and 10 Mbit/s


def test_every_transfer_and_training_that_was_done_is_a_row_with_its_trainings_outcome(
    tmp_path: Path,
) -> None:
    with simulated(tmp_path / "run") as folder:
        export_run(folder)
    rows = pq.read_table(tmp_path / "run" / "ledger_modelled.parquet").to_pylist()
    told = [
        (r["device"], r["step"], r["at_step"], r["phase"], r["outcome"], round(r["modelled_net_j"], 5))
        for r in rows
    ]
    assert told == [
        ("pi-01", 0, 0, "download", "aggregated", DOWN_J),
        ("pi-01", 0, 0, "train", "aggregated", 20.0),
        ("pi-02", 0, 0, "download", "wasted", DOWN_J),
        ("pi-02", 0, 0, "train", "wasted", 20.0),
        ("pi-01", 0, 1, "upload", "aggregated", UP_J),
        ("pi-01", 1, 1, "download", None, DOWN_J),
    ]
    assert [r["duration_s"] for r in rows] == [1.0, 20.0, 1.0, 20.0, 2.0, 1.0]
    assert [r["modelled_idle_j"] for r in rows] == [2.0, 40.0, 2.0, 40.0, 4.0, 2.0]
    about = json.loads(pq.read_schema(tmp_path / "run" / "ledger_modelled.parquet").metadata[b"roambench"])
    assert (about["modelled"], about["link_model"]) == (True, "mohawk")


def test_measured_ledgers_stay_empty_of_modelled_joules(tmp_path: Path) -> None:
    with simulated(tmp_path / "run") as folder:
        export_run(folder)
    assert pq.read_table(tmp_path / "run" / "ledger.parquet").num_rows == 0


def test_runs_with_meters_get_no_modelled_ledger(tmp_path: Path) -> None:
    with simulated(tmp_path / "run", fleet="local") as folder:
        assert modelled_account(folder, records()) is None
        paths = export_run(folder)
    assert "ledger_modelled.parquet" not in {path.name for path in paths}


def test_at_the_simulated_rate_a_transfer_takes_its_simulated_seconds(tmp_path: Path) -> None:
    with simulated(tmp_path / "run", {"energy_rate": "transfer"}) as folder:
        account = modelled_account(folder, records())
    assert account is not None
    ledger = account.ledger
    assert (ledger.duration_s[0], ledger.work.mbit_s[0]) == (pytest.approx(4.0), pytest.approx(5.0))
    assert ledger.net_j[0] == pytest.approx((51.97 * 5 + 1288.04) * 4e-3)


def test_devices_have_a_line_each_even_those_that_never_came(tmp_path: Path) -> None:
    with simulated(tmp_path / "run") as folder:
        export_run(folder)
    first, second, third = pq.read_table(tmp_path / "run" / "devices.parquet").to_pylist()
    assert (first["present_steps"], first["mean_distance_m"]) == (2, 600.0)
    assert (first["trainings"], first["aggregated"], first["wasted"]) == (1, 1, 0)
    assert (first["downloaded_bytes"], first["uploaded_bytes"], first["train_s"]) == (
        5_000_000,
        2_500_000,
        20.0,
    )
    assert first["modelled_communication_j"] == pytest.approx(2 * DOWN_J + UP_J)
    assert first["modelled_net_j"] == pytest.approx(2 * DOWN_J + UP_J + 20.0)
    assert first["modelled_gross_j"] == pytest.approx(2 * DOWN_J + UP_J + 20.0 + 2.0 * 24)
    assert first["modelled_wasted_gross_j"] == 0.0
    assert (second["aggregated"], second["wasted"]) == (0, 1)
    assert second["modelled_wasted_gross_j"] == pytest.approx(DOWN_J + 20.0 + 2.0 * 21)
    assert (third["device"], third["present_steps"], third["mean_distance_m"]) == ("pi-03", 0, None)
    assert third["modelled_gross_j"] == 0.0


def test_what_a_device_sends_to_others_and_gets_of_them_is_up_and_down(tmp_path: Path) -> None:
    with simulated(tmp_path / "run", told=exchanged()) as folder:
        export_run(folder)
    first, *_ = pq.read_table(tmp_path / "run" / "devices.parquet").to_pylist()
    assert (first["downloaded_bytes"], first["uploaded_bytes"]) == (2_500_000, 3_000_000)


def test_the_summary_is_a_table_of_the_runs_numbers(tmp_path: Path) -> None:
    with simulated(tmp_path / "run") as folder:
        export_run(folder)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["schema"] == "roambench.summary/2"
    assert (summary["steps"], summary["devices"], summary["wall_s"]) == (2, 3, 3.0)
    assert (summary["trainings"], summary["aggregated"], summary["wasted"]) == (2, 1, 1)
    assert (summary["final_accuracy"], summary["threshold_step"]) == (0.9, 1)
    assert summary["mean_distance_m"] == pytest.approx((900 + 900 + 300 + 500) / 4)
    modelled = summary["modelled"]
    assert modelled["total"]["net_j"] == pytest.approx(3 * DOWN_J + UP_J + 40.0)
    assert modelled["total"]["idle_j"] == pytest.approx(2.0 * 45)
    assert modelled["wasted"]["gross_j"] == pytest.approx(DOWN_J + 20.0 + 2.0 * 21)
    assert modelled["phases"]["upload"]["net_j"] == pytest.approx(UP_J)
    assert modelled["total"]["u_link_model_j"] == 0.0
    assert modelled["bytes"] == 10_000_000
    until = modelled["to_threshold"]
    # Step 1 aggregates one device's model: its download and its upload.
    assert until["communication_j_per_client"] == pytest.approx(DOWN_J + UP_J)
    # Step 0: two devices, one download each; step 1: one device with an upload and a synchronisation.
    assert until["communication_j_per_participant"] == pytest.approx(DOWN_J + UP_J + DOWN_J)
    assert (until["reached"], until["rounds"], until["transfers"]) == (True, 2, 4)


def own_model() -> LinkModel:
    covariance = ((4.0, 0.0, -5.0), (0.0, 1.0, 0.0), (-5.0, 0.0, 9.0))
    known = KnownLink(LinkPower("own", 100.0, 50.0, 1000.0), covariance, 7.0, 0.01)
    return LinkModel("own", {"any": known}, Provenance("bench"), {"pi-02": known}, (math.nan,) * 3)


def test_a_named_link_model_stays_with_the_run(tmp_path: Path) -> None:
    with simulated(tmp_path / "run") as folder:
        save_link_model_json(folder.path, own_model())
        account = modelled_account(folder, records())
    assert account is not None
    back = account.links
    assert (back.links, back.devices, back.about) == (
        own_model().links,
        own_model().devices,
        own_model().about,
    )
    assert account.ledger.net_j[0] == pytest.approx((50 * 20 + 1000) * 1e-3)
    assert account.ledger.errors["net"].each()[0] > 0.0


def test_the_built_in_link_model_needs_no_file(tmp_path: Path) -> None:
    save_link_model_json(tmp_path, MOHAWK)
    assert list(tmp_path.iterdir()) == []
    assert read_link_model_json(tmp_path) is MOHAWK


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": 3}', "\x00", "[" * 100_000])
def test_a_broken_link_model_file_is_told_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "link_model.json").write_text(text)
    with pytest.raises(RunError, match=r"link_model\.json: "):
        read_link_model_json(tmp_path)


def test_orders_that_were_not_done_have_no_modelled_joules(tmp_path: Path) -> None:
    lost = [
        StepOpened(2, (2,), (0,), (900.0,)),
        OrderGiven(2, 2, "t2", "train", 0, "", "cc", 900.0, "lte", 20.0),
        OrderAnswered(2, 2, "t2", "lost", "gone", 2_500_000, 1.0),
    ]
    with simulated(tmp_path / "run") as folder:
        account = modelled_account(folder, [*records(), *lost])
    assert account is not None
    assert account.ledger.device.tolist() == [0, 0, 1, 1, 0, 0]


def test_powers_that_a_folder_does_not_name_are_those_of_an_experiment_that_does_not(tmp_path: Path) -> None:
    with a_run(tmp_path / "run", "simulated", run_id="demo", trace_hash="ab") as folder:
        (folder.path / "experiment.json").write_text("{}")
        account = modelled_account(folder, [])
    assert account is not None
    usual = SimulatedSection()
    assert (account.power.idle_w, account.power.train_w, account.power.spread) == (
        usual.idle_w,
        usual.train_w,
        usual.power_spread,
    )
    assert account.power.spread == 0.03
