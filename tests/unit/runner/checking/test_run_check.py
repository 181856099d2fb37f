"""A run is checked, repeated and packed; what was changed of it is named, whether or not its digests were."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open

import roambench as rb
from roambench.cli.main import main
from roambench.contract.errors import RunError
from roambench.contract.model_blob import encode
from roambench.extras.exports.ro_crate import About, export_ro_crate
from roambench.live.saved_page import PAGE, write_page
from roambench.runner.checking.checks import check_runs, status_of
from roambench.runner.checking.findings import CheckOutcome
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.groups import run_folders
from roambench.runs.manifest import MANIFEST, write_manifest
from roambench.runs.models import load_model
from small_runs import folder_of, measured

pytestmark = pytest.mark.lengthy

EXPERIMENT = """
name = "tiny"
seed = 1
systems = ["mohawk"]
trace = { parameters = { devices = 8, steps = 8 }, steps = 4 }
fleet = { agents = 4, aps = 3 }
learning = { dataset = "synthetic", model = "mlp", images_per_device = 20, local_epochs = 1 }
synthetic = { train_images = 100, test_images = 50 }
rounds = { cloud_every_steps = 2 }
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "tiny.toml").write_text(EXPERIMENT)
    rb.run(folder / "tiny.toml", fleet="simulated", runs_dir=folder / "runs")
    return next(run_folders(folder / "runs"))


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def differing(run: Path, **more: Any) -> dict[str, str]:
    """Texts of what differs, by what was compared."""
    findings = [finding for check in check_runs([run], **more) for finding in check.findings]
    return {each.what: "\n".join(each.texts) for each in findings if each.outcome is CheckOutcome.DIFFERS}


def with_accuracy(run: Path, accuracy: float | None) -> None:
    """Edit the last accuracy, as a forger would, in the event log and in every table made of it."""
    with closing(sqlite3.connect(run / "events.sqlite", isolation_level=None)) as log:
        query = "SELECT id, body FROM event WHERE kind = 'StepClosed' ORDER BY id DESC LIMIT 1"
        row, body = log.execute(query).fetchone()
        log.execute(
            "UPDATE event SET body = ? WHERE id = ?",
            (json.dumps(json.loads(body) | {"accuracy": accuracy}), row),
        )
    log.close()


def edit(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def without_an_answer(run: Path) -> None:
    with closing(sqlite3.connect(run / "events.sqlite", isolation_level=None)) as log:
        log.execute("DELETE FROM event WHERE id = (SELECT min(id) FROM event WHERE kind = 'OrderAnswered')")


def named_as_before(run: Path) -> None:
    """Name its models as earlier versions did, by SHA-256 alone."""
    model = load_model(run / GLOBAL_MODEL)
    about = safe_open(run / GLOBAL_MODEL, "numpy").metadata()
    bare = hashlib.sha256(encode(model, about["layout"])).hexdigest()
    with closing(sqlite3.connect(run / "events.sqlite", isolation_level=None)) as log:
        log.execute("UPDATE event SET body = replace(body, 'blake3-', '')")
        log.execute(
            "UPDATE event SET body = json_set(body, '$.digest', ?) WHERE kind = 'CloudAggregated'", (bare,)
        )


def with_figures(run: Path, **figures: float) -> None:
    for name in ("figures.json", "summary.json"):
        found = json.loads((run / name).read_text())
        known = found["figures"] if name == "figures.json" else found
        known.update({key: value for key, value in figures.items() if key in known})
        (run / name).write_text(json.dumps(found))


def test_a_run_as_it_was_made_is_equal(run: Path) -> None:
    checks = check_runs([run])
    assert status_of(checks) == 0, differing(run)
    compared = {
        finding.what
        for check in checks
        for finding in check.findings
        if finding.outcome is CheckOutcome.EQUAL
    }
    assert {
        "files",
        "trace",
        "data set",
        "final model",
        "final model scored again",
        "figures.json",
    } <= compared
    assert {"steps.parquet", "ledger_modelled.parquet", "summary.json"} <= compared


def test_an_edited_accuracy_is_named_by_the_model_also_where_all_digests_were_made_again(run: Path) -> None:
    with_accuracy(run, 0.9999)
    wrong = differing(run)
    assert {"files", "steps.parquet", "figures.json", "final model scored again"} <= wrong.keys()
    assert "events.sqlite was changed" in wrong["files"]
    steps = pq.read_table(run / "steps.parquet")
    forged = [*steps["accuracy"].to_pylist()[:-1], 0.9999]
    column = steps.schema.get_field_index("accuracy")
    pq.write_table(
        steps.set_column(column, steps.schema.field(column), pa.array(forged)), run / "steps.parquet"
    )
    with_figures(run, final_accuracy=0.9999, best_accuracy=0.9999, final_metric=0.9999, best_metric=0.9999)
    write_manifest(run)
    wrong = differing(run)
    assert "accuracy 99.9900% is recorded" in wrong["final model scored again"]
    assert "files" not in wrong


def test_a_finished_run_whose_last_score_was_taken_out_is_named(run: Path) -> None:
    with closing(sqlite3.connect(run / "events.sqlite", isolation_level=None)) as log:
        log.execute(
            "UPDATE event SET body = json_set(body, '$.accuracy', null, '$.loss', null) "
            "WHERE kind = 'StepClosed'"
        )
    log.close()
    assert "no score of the last model" in differing(run)["final model scored again"]


@pytest.mark.parametrize(
    ("change", "what", "said"),
    [
        (
            lambda run: with_figures(run, wasted_j=0.0, consumed_j=1.0),
            "figures.json",
            "consumed_j: 1.0 is recorded",
        ),
        (
            lambda run: (run / "models/global.safetensors").unlink(),
            "final model scored again",
            "is not there",
        ),
        (lambda run: edit(run / "figures.json", basis="measured"), "figures.json", "basis: measured is rec"),
        (
            lambda run: edit(run / "run.json", chance_accuracy=0.01),
            "final model",
            "run.json: chance_accuracy",
        ),
        (lambda run: edit(run / "run.json", model_parameters=7), "final model", "run.json: model_parameters"),
        (lambda run: without_an_answer(run), "records", "events.sqlite lacks 1 row in its middle"),
        (lambda run: (run / "ledger_modelled.parquet").unlink(), "ledger_modelled.parquet", "is not there"),
        (lambda run: (run / "steps.parquet").write_bytes(b"PAR1"), "steps.parquet", "not a table"),
        (lambda run: (run / "trace.parquet").write_bytes(b"PAR1"), "trace", "trace.parquet"),
    ],
)
def test_what_was_changed_is_named_without_its_digest(
    change: Callable[[Path], object], what: str, said: str, run: Path
) -> None:
    change(run)
    (run / MANIFEST).unlink()
    assert said in differing(run)[what]


def test_a_run_that_did_not_end_is_not_checked_as_finished(run: Path) -> None:
    with closing(sqlite3.connect(run / "events.sqlite")) as log, log:
        log.execute("DELETE FROM event WHERE step = 3")
    write_manifest(run)
    assert "run.json says finished; the event log has 3 of 4 steps, and no end" in differing(run)["state"]


def test_a_model_that_is_none_differs(run: Path) -> None:
    (run / "models/global.safetensors").write_bytes(b"\xff" * 100)
    write_manifest(run)
    assert "global.safetensors" in differing(run)["final model"]


def test_joules_of_a_measured_run_are_accounted_from_its_raw_records(tmp_path: Path) -> None:
    from roambench.runs.export import export_run
    from roambench.runs.folder import RunFolder

    measured(tmp_path / "run")
    with RunFolder.open(tmp_path / "run", write=True) as folder:
        export_run(folder)
    ledger = pq.read_table(tmp_path / "run/ledger.parquet").drop_columns("sharing")  # as earlier versions
    pq.write_table(ledger, tmp_path / "run/ledger.parquet")
    assert "ledger.parquet" not in differing(tmp_path / "run")
    column = ledger.schema.get_field_index("gross_j")
    half = pa.array([0.5 * joules for joules in ledger["gross_j"].to_pylist()])
    pq.write_table(
        ledger.set_column(column, ledger.schema.field(column), half), tmp_path / "run/ledger.parquet"
    )
    assert "column gross_j, row 1 (device pi-01" in differing(tmp_path / "run")["ledger.parquet"]
    pq.write_table(ledger.drop_columns("gross_j"), tmp_path / "run/ledger.parquet")
    assert differing(tmp_path / "run")["ledger.parquet"].startswith("columns device, step")


def test_a_page_of_a_big_run_is_compared_with_its_records(run: Path) -> None:
    write_page(run, least_bytes=0)  # after its end: no file of the manifest
    assert differing(run) == {}
    with zipfile.ZipFile(run / PAGE) as archive:
        entries = {name: json.loads(archive.read(name)) for name in archive.namelist()}
    entries["whole.json"]["steps"][-1][4] = 0.9999
    with zipfile.ZipFile(run / PAGE, "w") as archive:
        for name, entry in entries.items():
            archive.writestr(name, json.dumps(entry))
    assert "whole.json.steps[3][4]: 0.9999 is recorded" in differing(run)[PAGE]
    with zipfile.ZipFile(run / PAGE, "w") as archive:
        for name, entry in entries.items():
            archive.writestr(name, json.dumps(entry).replace('"aggregated"', '"wasted"'))
    assert "metrics.json.families" in differing(run)[PAGE]
    (run / PAGE).write_bytes(b"PK")
    assert "not what a run's end writes" in differing(run)[PAGE]


def test_a_folder_that_is_named_after_another_setting_is_told(run: Path) -> None:
    experiment = json.loads((run / "experiment.json").read_text())
    alpha, seed = experiment["learning"]["alpha"], experiment["seed"]
    right = run.with_name(f"mohawk alpha={alpha} seed={seed}")
    run.rename(right)
    assert differing(right) == {}
    wrong = right.with_name(f"hierfavg alpha=7.5 seed={seed} b=c")
    right.rename(wrong)
    told = differing(wrong)["name"]
    assert "it names hierfavg, the run is of mohawk" in told
    assert f"it names alpha=7.5, the run has alpha={alpha}" in told


def test_a_blank_in_a_value_of_a_folders_name_is_no_difference(run: Path) -> None:
    experiment = json.loads((run / "experiment.json").read_text())
    experiment["trace"]["file"] = "two weeks/of a city.parquet"
    (run / "experiment.json").write_text(json.dumps(experiment))
    right = run.with_name(f"mohawk file=two weeks-of a city.parquet seed={experiment['seed']}")
    run.rename(right)
    assert "name" not in differing(right)
    wrong = right.with_name("mohawk file=two weeks-of a town.parquet")
    right.rename(wrong)
    assert "it names file=two weeks-of a town.parquet, the run has file=two" in differing(wrong)["name"]


def test_a_run_that_goes_on_cannot_be_checked_yet(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", "simulated", [])
    with pytest.raises(RunError, match="goes on; check it when it has ended"):
        check_runs([tmp_path / "run"])
    folder.close()


def test_the_command_ends_with_0_1_and_2(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def status(*words: object) -> object:
        with pytest.raises(SystemExit) as ended:
            main(["check", *map(str, words)])
        return ended.value.code

    assert status(run, "--json") == 0
    assert json.loads(capsys.readouterr().out)["status"] == 0
    settings = json.loads((run / "experiment.json").read_text())
    settings["learning"] |= {"dataset": "mnist", "data_path": str(tmp_path / "nowhere")}
    (run / "experiment.json").write_text(json.dumps(settings))
    (run / MANIFEST).unlink()
    assert status(run) == 2
    assert f"roambench check {run} --download" in capsys.readouterr().out
    with_accuracy(run, 0.5)
    assert status(run) == 1
    assert status(tmp_path / "nowhere") == 2
    assert "no such folder" in capsys.readouterr().err


def test_a_crate_is_checked_with_its_report_and_a_forged_one_is_named(made: Path, tmp_path: Path) -> None:
    crate = export_ro_crate([made], tmp_path / "crate", About("CC0-1.0"))
    runs = [*run_folders(crate)]
    checks = check_runs(runs)
    assert status_of(checks) == 0, [each for check in checks for each in check.findings]
    assert {"files", "report.json"} <= {finding.what for finding in checks[0].findings}
    report = json.loads((crate / "report.json").read_text())
    report["runs"][0]["learning"]["final_accuracy"] = 0.9999
    (crate / "report.json").write_text(json.dumps(report))
    write_manifest(crate)
    assert "runs[0].learning.final_accuracy: 0.9999 is recorded" in differing(runs[0])["report.json"]


def test_a_crate_of_settings_with_several_seeds_is_equal_as_it_was_packed(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(EXPERIMENT)
    runs = []
    for at, (alpha, seed) in enumerate(((0.1, 1), (0.1, 2), (100.0, 1))):
        place = tmp_path / str(at)
        rb.run(
            tmp_path / "tiny.toml",
            set={"learning.alpha": alpha, "seed": seed},
            fleet="simulated",
            runs_dir=place,
        )
        runs.append(Path(shutil.copytree(next(run_folders(place)), tmp_path / f"run-{at}")))
    crate = export_ro_crate(runs, tmp_path / "crate", About("CC0-1.0"))
    assert "settings" in json.loads((crate / "report.json").read_text())
    checks = check_runs([*run_folders(crate)])
    assert status_of(checks) == 0, [each for check in checks for each in check.findings]


def test_a_run_is_repeated_from_its_folder_with_the_same_models(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = Path(shutil.copytree(made, tmp_path / "moved"))
    settings = json.loads((moved / "experiment.json").read_text())
    settings["trace"] |= {"file": "/nowhere/trace.parquet", "generator": "", "parameters": {}}
    (moved / "experiment.json").write_text(json.dumps(settings))
    with pytest.raises(SystemExit) as ended:
        main(["run", str(moved), "--runs-dir", str(tmp_path / "again"), "-q"])
    assert ended.value.code == 0
    assert f"repeats {moved}: the same models, digest" in capsys.readouterr().out
    named_as_before(moved)
    assert "final model" not in differing(moved)
    with pytest.raises(SystemExit) as ended:
        main(["run", str(moved), "--runs-dir", str(tmp_path / "again"), "-q"])
    assert ended.value.code == 0
    assert f"repeats {moved}: the same last model" in capsys.readouterr().out
    (moved / "trace.parquet").unlink()
    with pytest.raises(SystemExit) as ended:
        main(["run", str(moved), "--runs-dir", str(tmp_path / "never")])
    assert ended.value.code != 0
    assert "cannot be repeated" in capsys.readouterr().err
