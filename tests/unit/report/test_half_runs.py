"""Run folders of which a file is missing or damaged: what is there is shown, and what is not is said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from roambench.cli.main import main
from roambench.contract.errors import RunError
from roambench.contract.metric import ACCURACY
from roambench.live.folders import WatchedFolder
from roambench.live.messages import RunMessages
from roambench.live.view import RunView
from roambench.report.paper_figures import export_figures
from roambench.report.report import report
from roambench.report.run_figures import RunFigures, recorded_figures, write_figures
from roambench.report.run_list import listed_runs
from roambench.report.tracked import summable
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.groups import runs_at
from small_runs import measured, swept

Harm = Callable[[Path], object]


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def make_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


HARMS: list[Harm] = [
    Path.unlink,
    halve,
    make_a_folder,
    lambda file: file.write_bytes(b""),
    lambda file: file.write_bytes(b"\xff\x00 no file of a run"),
]
FILES = [
    *("run.json", "experiment.json", "events.sqlite", "records.sqlite", "figures.json"),
    *("ledger.parquet", "readings.parquet", "steps.parquet", "phases.parquet", "truth/pi-01.csv"),
]
#: Without these nothing can be summed up.
NEEDED = ("run.json", "experiment.json", "events.sqlite")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "mohawk"
    measured(path)
    (path / "truth/pi-01.csv").write_text("ns,watts,idle_watts\n-10000000000,2.0,2.0\n90000000000,,\n")
    with RunFolder.open(path) as folder:
        export_run(folder)
    write_figures(path)
    return path


@pytest.mark.parametrize("harm", HARMS, ids=["removed", "halved", "a folder", "emptied", "garbled"])
@pytest.mark.parametrize("name", FILES)
def test_a_run_without_a_file_shows_the_figures_that_it_has_and_names_the_file(
    name: str, harm: Harm, whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "mohawk"
    shutil.copytree(whole, run)
    harm(run / name)
    recorded = recorded_figures(whole)
    assert recorded is not None

    made = report([run])
    document, page = json.loads(made.json()), made.html()
    (listed,) = listed_runs(run)
    assert name == "figures.json" or listed.figures == recorded
    if name in NEEDED:
        (half,) = document["half_runs"]
        assert not document["runs"]
        assert half["figures"] == recorded.figures
        assert Path(name).name in half["problem"]
        assert Path(name).name in page
        assert "From steps.parquet, of runs whose records are lost" in page
    else:
        (found,) = document["runs"]
        if name == "records.sqlite":
            assert found["used_for_learning_j"] is None
            assert found["energy"] is None
            assert "measured joules, power and the state of boards are missing" in found["flags"][0]
            assert name in found["flags"][0]
            assert name in page
            assert found["learning"]["final_accuracy"] == recorded.figures["final_accuracy"]
        else:
            assert RunFigures.of(made.summaries[0]).figures.keys() >= recorded.figures.keys() - {
                "emulator_true_j"
            }

    watched = WatchedFolder(run).runs()
    assert [it.name for it in watched] == ["mohawk"]
    if name == "run.json":
        assert "run.json" in watched[0].problem
        return
    view = RunView(run)
    view.look()
    doubts = RunMessages(view).whole()["head"]["doubts"]
    view.close()
    assert any(name in doubt for doubt in doubts) == (name in (*NEEDED, "records.sqlite"))


@pytest.mark.parametrize("name", NEEDED)
def test_one_half_run_leaves_the_others_of_its_sweep_as_they_are(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swept(tmp_path / "sweep")
    before = report(runs_at([tmp_path / "sweep"]))
    half = tmp_path / "sweep/points/m-0.1-1/runs/mohawk"
    write_figures(half)
    (half / name).unlink()

    runs = runs_at([tmp_path / "sweep"])
    made = report(runs)
    assert [it.label for it in made.halves]
    assert len(made.summaries) == 3
    assert [len(row.runs) for row in made.settings.rows] == [1, 2]
    assert made.settings.rows[1].figures == before.settings.rows[1].figures
    assert name in made.html()
    said: list[str] = []
    assert len(summable(runs, said.append)) == 3
    assert name in said[0]
    assert any(name in note for note in export_figures(runs, tmp_path / "figures", formats=["svg"]).notes)
    with pytest.raises(SystemExit) as ended:
        main(["check", *map(str, runs)])
    assert ended.value.code in (1, 2)
    printed = capsys.readouterr().out
    assert name in printed
    assert printed.count("figures.json") >= 3


def test_without_its_log_a_run_has_the_scores_of_its_steps(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "mohawk"
    shutil.copytree(whole, run)
    for name in ("events.sqlite", "figures.json"):
        (run / name).unlink()
    (half,) = report([run]).halves
    assert half.scores == {ACCURACY: {0: 0.5}}
    assert half.sentence.endswith(
        "no such file: of it there are the scores in steps.parquet, which its end wrote; all else is missing"
    )
    with pytest.raises(SystemExit) as ended:
        main(["figures", str(run), "-o", str(tmp_path / "figures"), "--format", "svg"])
    assert ended.value.code == 0
    assert half.sentence in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["half-runs-accuracy.svg"]


def test_a_half_run_without_figures_of_its_end_says_which_file_it_lacks(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "mohawk"
    shutil.copytree(whole, run)
    for name in ("events.sqlite", "figures.json", "steps.parquet"):
        (run / name).unlink()
    with pytest.raises(RunError, match=r"events\.sqlite: no such file$"):
        report([run])
    (listed,) = listed_runs(run)
    assert listed.figures == RunFigures()
    assert "events.sqlite" in listed.problem
