"""The page of a study: what the paper claims and what came out, our figures beside its, what was run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from roambench.contract.counts import count
from roambench.energy.energy_value import Energy
from roambench.extras.papers.alike import leaves, taken_together
from roambench.extras.papers.finished_runs import FinishedRun
from roambench.extras.papers.mohawk_page import mohawk_page
from roambench.extras.papers.peer_page import peer_page
from roambench.extras.papers.results_page import CurvesOf, ResultsPage, Says, results_page, scale_table
from roambench.extras.reproduce.catalogue import Catalogue, PrintedFigure, Study
from roambench.extras.reproduce.claims import (
    ClaimVerdict,
    claims_table,
    figure_of,
    is_of,
    judged,
    shown,
    values_of,
)
from roambench.extras.reproduce.scale import Scale
from roambench.report.numbers import NONE
from roambench.report.spread import spread_of
from roambench.report.table import ReportTable
from roambench.study.sweep.points import FREE, text
from roambench.study.sweep.results_files import cell as spread_cell

#: Title of the table of printed figures.
BESIDE: Final = "Our figures beside the paper's"
_SAYS: Final[Says] = (
    ("fleet", lambda run: run.fleet),
    ("systems", lambda run: run.system),
    ("seeds", lambda run: run.experiment.seed),
    ("data set", lambda run: run.experiment.learning.task or run.experiment.learning.dataset),
    ("model", lambda run: run.experiment.learning.model),
    ("images per device", lambda run: run.experiment.learning.images_per_device),
    ("partition", lambda run: run.experiment.learning.partition),
    ("a local update", lambda run: _local_update(run)),
    ("steps between cloud aggregations", lambda run: run.experiment.rounds.cloud_every_steps),
    (
        "movement",
        lambda run: run.experiment.trace.generator or Path(run.experiment.trace.file).name or "city",
    ),
    ("steps", lambda run: run.experiment.trace.steps),
    ("test images", lambda run: run.experiment.learning.test_images or "all"),
)


def study_page(
    catalogue: Catalogue,
    study: Study,
    scale: Scale,
    folder: Path,
    metrics: Sequence[str],
    *,
    curves_name: str,
    options: Sequence[str] = (),
    runs_in_all: int = 0,
    stopped: Sequence[FinishedRun] = (),
) -> ResultsPage:
    """Return the page of the finished runs of the study's sweep in `folder`; `metrics` are those of its sweep
    file, `options` the words of the command that change its runs, `runs_in_all` counts its runs if not all
    have finished, `stopped` are those of them that began. RunError where there are none, or where `results`
    would refuse them."""
    runs = taken_together([folder])
    found = judged([claim for claim in study.claims if scale in claim.at], runs)
    ours = not any(item.study == study.name for item in catalogue.items)
    first = [claims_table(found, ours=ours)] if found else []
    if (printed := _beside_the_paper(study.printed, runs)) is not None:
        first.append(printed)
    title = f"{study.title}: {scale}"
    scaled = [] if scale is Scale.SMALL else ["--scale", scale]
    command = shlex.join(["roambench", "reproduce", study.name, *scaled, *options])
    foreword = [_counted([one.verdict for one in found], ours), _items(catalogue, study, scale)]
    foreword.append(f"`{command}` makes this page, by the sweep below.")
    if len(runs) < runs_in_all:
        foreword.append(f"{len(runs)} of {runs_in_all} runs have ended so far.")
    if scale in study.gap:
        foreword.append(f"Less than the paper's: {study.gap[scale]}")
    foreword += [
        f"{one.claim.says}: **{one.verdict}**. {one.claim.why[scale]}"
        for one in found
        if scale in one.claim.why and one.verdict.has_reason
    ]
    foreword = [paragraph for paragraph in foreword if paragraph]
    if study.beside == "mohawk":
        return mohawk_page(
            [folder], title=title, curves_name=curves_name, foreword=foreword, first=first, stopped=stopped
        )
    if study.beside:
        return peer_page(
            [folder], study.beside, title=title, curves_name=curves_name, foreword=foreword, first=first
        )
    return results_page(
        [folder],
        runs,
        title=title,
        scale=scale_table(runs, _SAYS, {}),
        tables=first,
        points=_settings(runs, metrics),
        curves=CurvesOf("", ()),
        curves_name=curves_name,
        foreword=foreword,
    )


def _local_update(run: FinishedRun) -> str:
    learning = run.experiment.learning
    length = (
        count(learning.local_steps, "step") if learning.local_steps else count(learning.local_epochs, "epoch")
    )
    return f"{length} (batches of {learning.batch_size}; step size {learning.learning_rate:g})"


def _counted(verdicts: Sequence[ClaimVerdict], ours: bool) -> str:
    """A sentence: what speaks against the paper first."""
    if not verdicts:
        return ""
    counts = "; ".join(f"{verdicts.count(one)} {one}" for one in ClaimVerdict if one in verdicts)
    what = "expectation of ours" if ours and len(verdicts) == 1 else "expectations of ours"
    of = f"{len(verdicts)} {what}, no paper's" if ours else count(len(verdicts), "claim")
    return f"**Of {of}: {counts}.**"


def _items(catalogue: Catalogue, study: Study, scale: Scale) -> str:
    items = [item for item in catalogue.items if item.study == study.name and scale in item.at]
    if not items:
        return ""
    lines = [f"- {item.paper}, {item.label}: {item.shows}" for item in items]
    lines = [
        f"{line}. Missing: {item.missing}" if item.missing else line
        for line, item in zip(lines, items, strict=True)
    ]
    return "\n".join(["Answers for", "", *lines])


def _beside_the_paper(printed: Sequence[PrintedFigure], runs: Sequence[FinishedRun]) -> ReportTable | None:
    if not printed:
        return None
    rows = []
    for one in printed:
        there = [run for run in runs if is_of(values_of(run), one.where)]
        bound = any(figure_of(run, one.metric)[1] for run in there)
        ours = spread_of([_measured(run, one.metric) or figure_of(run, one.metric)[0] for run in there])
        where = ", ".join(f"{key.rpartition('.')[2]} {text(value)}" for key, value in leaves(one.where))
        rows.append(
            (
                one.item,
                where,
                one.setting or where,
                one.metric.replace("_", " "),
                ("≥ " if bound else "") + spread_cell(one.metric, ours, ours.n),
                shown(one.metric, one.value),
            )
        )
    return ReportTable(
        "printed",
        BESIDE,
        "Ours: mean ± sd over the seeds [± of meters], of runs with less data and smaller models (below); "
        "only directions can be compared.",
        ("item", "our runs", "the paper's", "figure", "ours", "paper"),
        tuple(rows),
        numeric_from=4,
    )


def _settings(runs: Sequence[FinishedRun], metrics: Sequence[str]) -> ReportTable:
    """A row for each setting that the study varies, mean ± sd over its seeds."""
    flat = [values_of(run) for run in runs]
    keys = [key for key in flat[0] if key not in FREE and len({repr(v.get(key)) for v in flat}) > 1]
    keys = ["systems", *(key for key in keys if key != "systems")]
    groups: dict[tuple[str, ...], list[FinishedRun]] = {}
    for run, values in zip(runs, flat, strict=True):
        groups.setdefault(tuple(_said(values.get(key)) for key in keys), []).append(run)
    rows = [
        (
            *place,
            str(len(found)),
            *(spread_cell(m, spread_of([_figure(run, m) for run in found]), len(found)) for m in metrics),
        )
        for place, found in groups.items()
    ]
    return ReportTable(
        "settings",
        "Every setting",
        "Mean ± sd over the seeds [± of meters]; in brackets how many have a figure, where not all do.",
        (*(key.rpartition(".")[2] for key in keys), "seeds", *(m.replace("_", " ") for m in metrics)),
        tuple(rows),
        numeric_from=len(keys),
    )


def _figure(run: FinishedRun, metric: str) -> Energy | float | None:
    """With its uncertainty, if meters measured it."""
    return _measured(run, metric) or run.outcome.figure(metric)


def _measured(run: FinishedRun, metric: str) -> Energy | None:
    return run.outcome.energy(metric) if run.outcome.basis == "measured" else None


def _said(value: Any) -> str:
    return NONE if value is None else text(value)
