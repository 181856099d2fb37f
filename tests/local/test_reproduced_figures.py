"""Figures of every study's page, computed again from its runs' event logs and models (`raw_runs`).

The sweeps are the studies' own with fewer settings, devices and steps, so that runs take seconds; pages are
made as always.
"""

from __future__ import annotations

import shutil
import statistics
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pytest

from forked_commands import roambench
from raw_runs import RawRun, lead_interval, rows_of, shown

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Lead:
    """A claim, and its two values of what the grid varies, `beside` "" for none; `figure` in the page's
    unit."""

    says: str
    better: str
    beside: str
    figure: Callable[[RawRun], float] = RawRun.final
    fitted: bool = False  # the simulated city follows the paper in it


@dataclass(frozen=True)
class Tiny:
    """A `grid` for the sweep's own, that varies `by` alone, and keys that are set."""

    by: str
    grid: str
    lead: Lead
    keys: tuple[str, ...]

    def kind(self, run: RawRun) -> str:
        if self.by == "systems":
            return run.system
        return str(reduce(lambda table, key: table[key], self.by.split("."), run.experiment))


CITY = ("trace.steps=30", "trace.parameters.devices=120")
HOPS = ("trace.steps=16",)
IMAGES = (
    'learning.dataset="digits"',
    'learning.model="mlp"',
    "learning.train_images=0",
    "learning.test_images=0",
    *HOPS,
)
WALKS = ("decentralised.iterations=8", "decentralised.evaluate_every=4")
K2 = "rounds.cloud_every_steps = [2]\nlearning.alpha = [100.0]\n"
MOVES = 'learning.alpha = [0.1]\nmobility.model = ["random", "dcm"]\n'
STUDIES = {
    "mohawk": Tiny(
        "systems",
        'systems = ["mohawk", "hierfavg", "macfl"]\n' + K2,
        Lead(
            "MOHAWK aggregates more models in a step",
            "mohawk",
            "macfl",
            RawRun.aggregated_per_step,
            fitted=True,
        ),
        ("rounds.accuracy_threshold=0.2", *CITY),
    ),
    "mohawk-batch": Tiny(
        "learning.batch_size",
        'systems = ["mohawk"]\nlearning.batch_size = [64, 8]\n' + K2,
        Lead("", "", ""),  # its claim has four values
        CITY,
    ),
    "mohawk-epochs": Tiny(
        "learning.local_epochs",
        'systems = ["mohawk"]\nlearning.local_epochs = [1, 5]\n' + K2,
        Lead("k1 = 5 is more accurate", "5", "1"),
        CITY,
    ),
    "mohawk-factors": Tiny(
        "learning.local_epochs",
        'systems = ["mohawk"]\nlearning.local_epochs = [1, 5]\n',
        Lead("", "", ""),  # it has no claims
        ("trace.steps=30",),
    ),
    "mohawk-scale": Tiny(
        "fleet.aps",
        'systems = ["hierfavg"]\nfleet.aps = [20, 200]\n' + K2,
        Lead("HierFAVG loses accuracy", "20", "200"),
        ("trace.steps=30",),
    ),
    "mohawk-boards": Tiny(
        "systems",
        'systems = ["mohawk", "hierfavg"]\nrounds.stop_at_threshold = [false]\n' + K2,
        Lead("", "", ""),  # test_reproduced_pages.py has its joules
        CITY,
    ),
    "mohawk-checkins": Tiny(
        "systems",
        'systems = ["mohawk", "macfl"]\nrounds.cloud_every_steps = [2]\n',
        Lead("", "", ""),  # its claims have two rivals, or compare two k2
        ('trace.generator="city"', "trace.parameters={ devices = 120, steps = 30 }", "trace.steps=30"),
    ),
    "mohawk-cifar": Tiny(
        "systems",
        'systems = ["mohawk", "hierfavg", "macfl"]\n',
        Lead("", "", ""),  # its claims have two rivals
        IMAGES[:-1],
    ),
    "mohawk-boards-agents": Tiny(
        "systems",
        'systems = ["mohawk", "hierfavg"]\n',
        Lead("", "", ""),  # tests of energy have measured joules
        ("fleet.agents=3", "trace.steps=8", "local.time_scale=6.0", 'trace.generator="city"'),
    ),
    "middle": Tiny(
        "systems",
        'systems = ["middle", "greedy"]\n',
        Lead("Greedy is less accurate", "middle", "greedy"),
        HOPS,
    ),
    "middle-homes": Tiny(
        "systems",
        'systems = ["middle", "greedy"]\n',
        Lead("", "", ""),  # its claims have five rivals
        HOPS,
    ),
    "middle-speech": Tiny(
        "systems",
        'systems = ["greedy", "oort"]\n',
        Lead("Greedy is more accurate in the end than OORT", "greedy", "oort"),
        IMAGES,
    ),
    "middle-cifar": Tiny(
        "systems",
        'systems = ["middle", "oort"]\n',
        Lead("MIDDLE's local models are nearer", "middle", "oort", lambda run: -run.local_divergence()),
        IMAGES,
    ),
    "middle-settings": Tiny(
        "systems",
        'systems = ["middle", "oort"]\nrounds.cloud_every_steps = [20]\n',
        Lead("At T_c = 20 MIDDLE is more accurate", "middle", "oort"),
        ("trace.steps=21",),
    ),
    # With one edge its model just before a cloud aggregation is the global one after it.
    "middle-edges": Tiny(
        "learning.major_share",
        'systems = ["oort"]\nlearning.major_share = [0.46, 1.0]\n',
        Lead(
            "Between two cloud aggregations edge model 1 loses accuracy",
            "0.46",
            "",
            lambda run: -run.gain_between_clouds(),
        ),
        (
            "trace.steps=12",
            "rounds.cloud_every_steps=4",
            "trace.parameters.aps=1",
            "trace.parameters.p=0.0",
        ),
    ),
    "middle-factors": Tiny("systems", 'systems = ["oort", "fedmes"]\n', Lead("", "", ""), HOPS),
    "de-heredia": Tiny(
        "mobility.fast_share",
        'learning.partition = ["label_shards"]\nmobility.fast_share = [0.05, 0.2]\n',
        Lead("Fast clients are ahead of slow ones, non-IID", "0.2", "", RawRun.lead_of_the_fast),
        ("contacts.radius=60.0", *WALKS),
    ),
    "dam": Tiny("mobility.model", MOVES, Lead("DCM is more accurate than random", "dcm", "random"), WALKS),
    "dam-figures": Tiny(
        "contacts.radius",
        'contacts.radius = [1.0, 5.0]\nmobility.model = ["dcm"]\n',
        Lead("A larger contact radius is more accurate", "5.0", "1.0", RawRun.best),
        WALKS,
    ),
    "workshop": Tiny(
        "mobility.model",
        MOVES,
        Lead("DCM is more accurate than random", "dcm", "random"),
        ("contacts.radius=6.0", *WALKS),
    ),
}
#: One of each kind of page; the others are for `make test-all`.
ALWAYS = ("mohawk", "mohawk-checkins", "middle", "middle-speech", "de-heredia", "workshop")
Made = tuple[str, list[RawRun]]


def sweeps() -> dict[str, tuple[str, str]]:
    """The scale and the file of each study's smallest sweep."""
    catalogue = tomllib.loads((ROOT / "experiments" / "reproduction.toml").read_text(encoding="utf-8"))
    return {
        study["name"]: next((scale, study[scale]["file"]) for scale in ("small", "medium") if scale in study)
        for study in catalogue["study"]
    }


def test_every_study_is_here() -> None:
    assert STUDIES.keys() == sweeps().keys()


def made(study: str, folder: Path) -> Made:
    """The study's page and runs, two seeds of every setting."""
    shutil.copytree(ROOT / "experiments", folder / "experiments")
    catalogue = folder / "experiments" / "reproduction.toml"  # in which no study needs recorded movement
    text = catalogue.read_text(encoding="utf-8")
    catalogue.write_text(text.replace(', trace = "nyc.parquet"', ""), encoding="utf-8")
    scale, file = sweeps()[study]
    sweep = folder / "experiments" / file
    own = sweep.read_text(encoding="utf-8").partition("[grid]")[0]
    sweep.write_text(f"{own}[grid]\n{STUDIES[study].grid}seeds = 2\n", encoding="utf-8")
    words = ["reproduce", study, "--scale", scale, "-o", "runs", "--pages", ".", "--jobs", "2"]
    for key in STUDIES[study].keys:
        words += ["--set", key]
    done = roambench(*words, cwd=folder)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    paths = (folder / "runs").glob(f"{study}-{scale}/points/*/runs/*/experiment.json")
    return (folder / f"{study}-{scale}.md").read_text(encoding="utf-8"), [RawRun(p.parent) for p in paths]


@pytest.mark.parametrize(
    "study",
    [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.slow) for name in STUDIES],
)
def test_figures_of_a_page_are_those_of_its_runs_logs_and_models(study: str, tmp_path: Path) -> None:
    page, runs = made(study, tmp_path)
    tiny = STUDIES[study]
    kinds: dict[str, dict[int, RawRun]] = {}
    for run in runs:
        if run.scored():  # mohawk-checkins trains no device
            percent, ties = run.last_models_percent()
            assert run.last_score_percent() == pytest.approx(percent, abs=1e-9 + ties)
        kinds.setdefault(tiny.kind(run), {})[run.seed] = run
    assert [len(of_seed) for of_seed in kinds.values()] == [2] * len(kinds)
    if "## Every setting" in page:
        settings_are(page, kinds, tiny)
    elif "| J per client |" in page:
        hierarchical_runs_are(page, kinds)
    else:
        decentralised_runs_are(page, kinds, tiny)
    if tiny.lead.says:
        lead_is(page, kinds, tiny.lead)


def settings_are(page: str, kinds: dict[str, dict[int, RawRun]], tiny: Tiny) -> None:
    """Mean ± sd over the seeds."""
    rows = {row[tiny.by.rpartition(".")[2]]: row for row in rows_of(page, "Every setting")}
    assert rows.keys() == kinds.keys()
    compared = 0
    for kind, of_seed in kinds.items():
        for column, figure, digits in (
            ("final accuracy", RawRun.final, 1),
            ("best accuracy", RawRun.best, 1),
            ("aggregated per step", RawRun.aggregated_per_step, 2),
            ("wasted share", RawRun.wasted_percent, 1),
            ("distance km", RawRun.distance_km, 2),
            ("local divergence", RawRun.local_divergence, 4),
            ("ap0", lambda run: run.last_models_percent()[0], 1),
            ("ap0 drift", RawRun.gain_between_clouds, 1),
            ("ap0 of 3 4", lambda run: statistics.mean(run.percent_by_class()[3:5]), 1),
            ("global of 3 4 8 9", lambda run: statistics.mean(run.percent_by_class()[[3, 4, 8, 9]]), 1),
            ("rounds to 0.8", lambda run: run.rounds_to(80.0), 1),
            ("rounds to 0.7", lambda run: run.rounds_to(70.0), 1),
        ):
            if column not in rows[kind]:
                continue
            found = [value for run in of_seed.values() if (value := figure(run)) is not None]
            compared += 1
            cell = shown(rows[kind][column])
            if not found:
                assert not cell
                continue
            spread = [statistics.mean(found)] + [statistics.stdev(found)] * (len(found) > 1)
            assert cell[: len(spread)] == pytest.approx(spread, abs=0.501 * 10.0**-digits), (kind, column)
    assert compared >= 3


def hierarchical_runs_are(page: str, kinds: dict[str, dict[int, RawRun]]) -> None:
    for row in rows_of(page, "Every run"):
        run = kinds[row["system"]][int(row["seed"])]
        rounds = run.rounds_to(20.0)
        assert row["rounds"] == (str(rounds) if rounds else f"not in {int(row['steps']) - 1}")
        for column, value, digits in (
            ("last", run.final(), 2),
            ("best", run.best(), 2),
            ("aggregated per step", run.aggregated_per_step(), 3),
            ("wasted", run.wasted_percent(), 1),
            ("J per client", run.joules_per_client(20.0), 2),
        ):
            assert shown(row[column]) == pytest.approx([value], abs=0.501 * 10.0**-digits), (row, column)


def decentralised_runs_are(page: str, kinds: dict[str, dict[int, RawRun]], tiny: Tiny) -> None:
    column = {"mobility.model": "mobility", "mobility.fast_share": "p", "contacts.radius": "R_c"}[tiny.by]
    for row in rows_of(page, "Every run"):
        of_seed = next(found for kind, found in kinds.items() if kind.removesuffix(".0") == row[column])
        run = of_seed[int(row["seed"])]
        assert row["B"] == str(run.connected_within() or "–")
        for name, value, digits in (
            ("accuracy", run.final(), 2),
            ("mean model", run.last_score_percent(), 2),
            ("high - low", run.lead_of_the_fast(), 2),
            ("neighbours", run.neighbours(), 2),
        ):
            assert shown(row[name]) == pytest.approx([value], abs=0.501 * 10.0**-digits), (row, name)


def lead_is(page: str, kinds: dict[str, dict[int, RawRun]], lead: Lead) -> None:
    (row,) = [
        row
        for row in rows_of(page, "What the paper says, and what came out")
        if row["claim"].startswith(lead.says)
    ]
    seeds = sorted(kinds[lead.better])
    ours = [lead.figure(kinds[lead.better][seed]) for seed in seeds]
    theirs = [lead.figure(kinds[lead.beside][seed]) if lead.beside else 0.0 for seed in seeds]
    mean, half = lead_interval(ours, theirs)
    assert shown(row["lead"]) == pytest.approx([mean, half], abs=0.0501)
    assert row["seeds"] == "2"
    good = "fitted, not reproduced" if lead.fitted else "reproduced"
    decided = good if mean > half else "reversed" if -mean > half else ""
    assert row["outcome"] == (decided or "undecided")
