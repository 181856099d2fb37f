"""`import roambench as rb`: what it loads, opens, runs and writes."""

from __future__ import annotations

import asyncio
import csv
import io
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

import roambench as rb
from roambench.contract.errors import ConfigError, RunError
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

from .conftest import DEMO, SMALL

pytestmark = [pytest.mark.lengthy, pytest.mark.usefixtures("workers_of_one_server")]

#: What only a controller has, and what takes long to load.
HEAVY = ("torch", "pyarrow", "pydantic", "rich", "grpc", "numpy", "scipy", "plotly", "pandas")


def loaded_after(code: str) -> set[str]:
    asks = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_it_loads_nothing_and_opening_a_run_no_torch(runs):
    assert not loaded_after("import roambench as rb; rb.__version__, dir(rb)") & set(HEAVY)
    opened = loaded_after(
        f"import roambench as rb; run = rb.load({str(runs / 'demo-mohawk')!r}); run.energy(); run.steps"
    )
    assert "pyarrow" in opened
    assert not opened & {"torch", "grpc", "plotly"}


def test_a_run_opens_as_it_was_written(runs):
    run = rb.load(runs / "demo-mohawk")
    assert (run.name, run.system, run.seed, run.state) == ("demo-mohawk", "mohawk", 42, "finished")
    demo = tomllib.loads(DEMO.read_text())
    assert run.config["learning.alpha"] == demo["learning"]["alpha"]
    assert run.config["trace.steps"] == SMALL["trace.steps"]
    assert "modelled" in " ".join(run.warnings)
    assert run.finding.startswith("mohawk reached")
    for name, file in (("steps", "steps"), ("ledger", "ledger_modelled"), ("devices", "devices")):
        assert getattr(run, name).arrow.equals(pq.read_table(run.path / f"{file}.parquet")), name
    tensors = load_file(run.path / "models" / "global.safetensors")
    assert run.models["global"].keys() == tensors.keys()
    assert all(np.array_equal(run.models["global"][name], tensors[name]) for name in tensors)
    assert run.trace is not None
    assert run.trace.steps == SMALL["trace.steps"]
    assert len(run.events["StepClosed"]) == SMALL["trace.steps"]
    assert run.events["OrderAnswered"].units["transfer_s"] == "s"
    assert run.events["OrderAnswered"].units["transferred_bytes"] == "B"


def test_a_measured_run_has_the_tables_of_its_records(runs, tmp_path):
    run = rb.load(runs / "measured")
    assert len(run.readings) == 65
    assert run.samples["watts"].to_pylist() == pytest.approx([2.0] * 65, rel=0.02)  # calibrated
    assert run.samples.units == {"device": "", "ns": "ns", "watts": "W"}
    assert [row["phase"] for row in run.phases] == ["idle", "train", "idle", "lost"]
    assert len(run.ledger) == 4
    assert len(run.exchanges) == 0


def test_a_run_that_is_going_on_opens_and_one_without_its_tables_too(runs, tmp_path):
    copy = tmp_path / "again"
    shutil.copytree(runs / "measured", copy)
    with RunFolder.open(copy, write=True) as folder:
        folder.update(state=RunState.RUNNING)
        going = rb.load(copy)
        assert going.state == "running"
        assert going.energy(by=["phase"]).arrow.equals(rb.load(runs / "measured").energy(by=["phase"]).arrow)
        folder.update(state=RunState.FINISHED)


def test_a_pattern_a_folder_and_a_link_give_sets(runs, tmp_path):
    both = rb.load(str(runs / "demo-*"))
    assert both.names == ("demo-hierfavg", "demo-mohawk")
    assert both["mohawk"].system == "mohawk"
    assert both[0] is both["demo-hierfavg"]
    assert len(rb.load(runs)) == 3
    group = tmp_path / "demo" / "2026-11-24T1200"
    group.mkdir(parents=True)
    for system in ("mohawk", "hierfavg"):
        shutil.copytree(runs / f"demo-{system}", group / system)
    (group.parent / "latest").symlink_to(group)
    assert {run.system for run in rb.load(group.parent / "latest")} == {"mohawk", "hierfavg"}
    assert len(rb.load(group.parent / "*")) == 2
    single = rb.load(group / "mohawk")
    assert single.system == "mohawk"


@pytest.mark.parametrize(
    ("asked", "told"),
    [("nowhere", "no such folder"), ("demo-x*", "no run in it"), ("", "no run in it")],
)
def test_what_holds_no_run_says_so(tmp_path, asked, told):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=told):
        rb.load(tmp_path / (asked or "empty"))


def test_tables_go_to_pandas_polars_csv_and_latex(runs, tmp_path):
    spent = rb.load(runs / "measured").energy(by=["phase", "outcome"])
    frame = spent.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == list(spent.names)
    assert frame["energy_j"].tolist() == spent["energy_j"].to_pylist()
    assert spent.to_polars()["u_energy_j"].to_list() == spent["u_energy_j"].to_pylist()
    assert polars.DataFrame(spent).shape == (len(spent), len(spent.names))  # Arrow's own protocol
    text = spent.to_csv(tmp_path / "below" / "spent.csv")
    assert (tmp_path / "below" / "spent.csv").read_text() == text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [float(row["energy_j"]) for row in rows] == spent["energy_j"].to_pylist()
    latex = spent.to_latex()
    train = next(row for row in spent if row["phase"] == "train")
    assert rf"train & pending & \num{{{train['energy_j']:.1f} \pm {2 * train['u_energy_j']:.1f}}} & " in latex
    assert latex.startswith("\\begin{tabular}{llrrrr}\n\\toprule\nphase & outcome & energy / J & covered / s")
    phases = rb.load(runs / "measured").phases.to_csv()  # one column holds lists
    assert len(phases.splitlines()) == 5


def test_comparing_gives_the_reports_finding_tables_and_figures(runs, tmp_path):
    both = rb.compare(runs / "demo-mohawk", rb.load(runs / "demo-hierfavg"))
    assert "hierfavg" in both.finding
    assert {"accuracy", "aggregated"} <= both.figures.keys()
    assert both.figures["accuracy"].data[0].y is not None
    assert both.tables["runs"].head == ("", "demo-mohawk", "demo-hierfavg")
    both.html(tmp_path / "page.html")
    assert both.finding in (tmp_path / "page.html").read_text().replace("&#39;", "'")
    assert both.table.descriptions["modelled_gross_consumed_j"] == "used for learning"
    assert (both.table.better["accuracy"], both.table.better["trainings"]) == ("higher", "")
    latex = both.to_latex(columns=["run", "trainings", "modelled_gross_consumed_j"])
    assert latex.count(r"\\") == 3
    assert "demo-mohawk & " in latex
    with pytest.raises(KeyError):
        both.to_latex(columns=["joules"])
    differing = rb.compare(runs / "demo-mohawk", runs / "demo-hierfavg").table
    assert "learning.alpha" not in differing.names  # it is the same in both


def test_a_run_goes_on_within_a_running_event_loop_and_tells_every_step(runs, tmp_path):
    """A notebook's cell runs in one."""

    async def cell():
        seen = []
        made = rb.run(DEMO, fleet="rehearsal", set=SMALL, on_step=seen.append, runs_dir=tmp_path)
        return made, seen

    made, seen = asyncio.run(cell())
    assert [run.system for run in made] == ["mohawk", "hierfavg"]
    assert [(step.system, step.step) for step in seen] == [
        (system, number) for system in ("mohawk", "hierfavg") for number in range(SMALL["trace.steps"])
    ]
    assert {step.steps for step in seen} == {SMALL["trace.steps"]}
    assert [step.present for step in seen[:4]] == made[0].steps["present"].to_pylist()


def test_mistakes_come_all_at_once_and_in_one_go(tmp_path):
    with pytest.raises(ConfigError) as found:
        rb.run({"learning": {"lr": 1}}, set={"learning.alpha": "x"}, runs_dir=tmp_path)
    assert list(found.value.problems) == [
        'set: learning.alpha: expected a number > 0.0, got "x"',
        "experiment: learning.lr: unknown key, did you mean learning_rate?",
    ]


def test_what_on_step_raises_ends_the_run(tmp_path):
    def full(step):
        raise OverflowError("enough")

    async def cell():
        rb.run(DEMO, fleet="simulated", set=SMALL, on_step=full, runs_dir=tmp_path)

    with pytest.raises(OverflowError, match="enough"):
        asyncio.run(cell())
    (run,) = rb.load(tmp_path)  # the other system did not begin
    assert (run.state, run.info.reason) == ("interrupted", "stopped by the user")
    with pytest.raises(OverflowError, match="enough"):
        rb.run(DEMO, fleet="rehearsal", set=SMALL, on_step=full, runs_dir=tmp_path / "without-a-loop")
    assert len(rb.load(tmp_path / "without-a-loop")) == 1
    assert rb.run(DEMO, fleet="rehearsal", set=SMALL, runs_dir=tmp_path / "after")[1].state == "finished"


def test_a_sweep_has_a_table_and_its_runs(tmp_path):
    file = tmp_path / "grid.toml"
    file.write_text(
        f'experiment = "{DEMO}"\nfleet = "rehearsal"\n[grid]\nsystems = ["mohawk", "hierfavg"]\n'
        "[grid.rounds]\ncloud_every_steps = [2, 3]\n"
    )
    swept = rb.sweep(file, out=tmp_path / "swept", set=SMALL, jobs=2)
    assert len(swept.table) == 4
    assert {row["rounds.cloud_every_steps"] for row in swept.table} == {2, 3}
    assert len(swept.runs) == 4
    assert {run.config["trace.steps"] for run in swept.runs} == {SMALL["trace.steps"]}
    again = rb.sweep(file, out=tmp_path / "swept", set=SMALL, jobs=2)
    assert again.table.arrow.equals(swept.table.arrow)
    assert len(rb.load(tmp_path / "swept")) == 4


def test_names_that_there_are_not_are_attribute_errors():
    with pytest.raises(AttributeError, match="'roambench' has no attribute 'laod'"):
        _ = rb.laod
    assert {"load", "run", "sweep", "compare", "__version__"} <= set(dir(rb))
    assert Path(rb.__file__).name == "__init__.py"


@pytest.mark.parametrize("lacking", ["pyarrow", "scipy", "rich"])
def test_an_installation_without_part_of_the_extra_says_what_to_install(tmp_path: Path, lacking: str):
    """An environment that has every package of this one but `lacking`, by links."""
    for path in Path(pyarrow.__file__).parents[1].iterdir():
        if path.name != lacking and path.suffix != ".pth":
            (tmp_path / path.name).symlink_to(path)
    root = Path(__file__).parents[3]
    ran = subprocess.run(
        [sys.executable, "-S", "-c", "import roambench as rb; print(rb.__name__); rb.load('runs/x')"],
        env={"PYTHONPATH": os.pathsep.join([str(root / "protos"), str(tmp_path)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == "roambench\n"
    assert ran.stderr.splitlines()[-1].startswith(
        f"ModuleNotFoundError: roambench.load needs the extra controller, and {lacking} of it is not "
        f"installed: {sys.executable} -m pip install "
    )


def test_all_packages_of_the_extra_are_looked_for():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    named = [re.split("[<>=]", one)[0] for one in project["optional-dependencies"]["controller"]]
    modules = tuple("sklearn" if name == "scikit-learn" else name for name in named)
    assert modules == vars(rb)["_CONTROLLER"]
