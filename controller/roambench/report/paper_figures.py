"""The report's main figures as vector files for papers: drawn by matplotlib, fonts in the file.

Values are those of the report. Every curve and bar bears a name in the SVG (`accuracy-0`,
`energy-1-wasted-train`: figure, run in the order given, row, kind of time), so that a program finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from textwrap import shorten, wrap
from typing import Any, Final

from roambench.contract.errors import RunError
from roambench.contract.metric import ACCURACY, Metric
from roambench.contract.phases import ACTIVE_PHASES, Outcome, Phase
from roambench.contract.whole_file import write_whole
from roambench.energy.comparison.transfer import ModelBasis, Way
from roambench.energy.energy_value import Energy
from roambench.report.figures.communication import NAMES
from roambench.report.figures.figure import bought, judged_by, thresholds_of
from roambench.report.figures.look import LIGHT, OUTCOME_COLOURS, PHASE_COLOURS, RUN_COLOURS, painted
from roambench.report.figures.per_megabyte import LinkPoints, ModelLine, link_points
from roambench.report.joule_names import LEARNING
from roambench.report.summaries.energy import EnergySummary
from roambench.report.summaries.evidence import read_runs
from roambench.report.summaries.finding import name_of
from roambench.report.summaries.modelled import ModelledSummary
from roambench.report.summaries.run import RunSummary, summarise
from roambench.report.tracked import missing

FORMATS: Final = ("pdf", "svg", "png")
#: Width in inches by the name of a style: a column and a page of IEEE's journals.
STYLES: Final[Mapping[str, float]] = {"ieee": 3.5, "ieee-wide": 7.16}

#: Type of 8 points as IEEE wants it; TrueType in a PDF, outlines in an SVG: nobody needs the font.
_LOOK: Final[Mapping[str, Any]] = {
    "font.family": ["STIXGeneral", "DejaVu Sans"],
    "font.size": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "axes.edgecolor": LIGHT["--soft"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": LIGHT["--grid"],
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "text.parse_math": False,  # a run's name is no formula
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "roambench",
    "savefig.dpi": 600,
}
_DASHES: Final = ("-", "--", ":", "-.", (0, (8, 3)), (0, (8, 3, 2, 3)))
_MARKERS: Final = ("o", "s", "D", "^", "P", "X")
_HATCHES: Final[Mapping[Phase, str]] = {
    Phase.IDLE: "...",
    Phase.ABSENT: "xxx",
    Phase.REST: "---",
    Phase.WAIT: "///",
    Phase.UPLOAD: "\\\\\\",
    Phase.EXCHANGE: "|||",
    Phase.LOST: "+++",
}
_OUTCOMES: Final = {
    Outcome.AGGREGATED: "",
    Outcome.WASTED: "xxx",
    Outcome.FAILED: "+++",
    Outcome.PENDING: "...",
}
#: More marks than this would hide their line; its corners stay.
_MARKS: Final = 20
_EDGE: Final = "#1d2733"


@dataclass(frozen=True, slots=True)
class PaperFigures:
    """The files written, and what was left out of them and why."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]


def export_figures(
    runs: Sequence[Path], out: Path, *, formats: Sequence[str] = ("pdf", "svg"), style: str = "ieee"
) -> PaperFigures:
    """Write the figures that the runs have into the folder `out`: accuracy, accuracy-per-joule, energy,
    spent, outcomes, download-per-megabyte and upload-per-megabyte, each in every format. The same runs give
    the same bytes.

    RunError for what is no run, where nothing can be drawn, for a folder that cannot be written, or where
    matplotlib is not installed.
    """
    matplotlib, drawing = _library()
    summaries = [summarise(run) for run in read_runs(runs)]
    energies, notes = _energies(summaries)
    width = STYLES[style]
    files = []
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_LOOK)
        for key, (height, draw) in _drawings(summaries, energies).items():
            figure = drawing(figsize=(width, height), layout="constrained")
            draw(figure.subplots())
            for kind in formats:
                path = out / f"{key}.{kind}"
                _write(figure, path, kind)
                files.append(path)
    if not files:
        raise RunError("nothing to draw: no step was scored, no local update ordered, no energy known")
    return PaperFigures(tuple(files), tuple(notes))


_Energies = Mapping[int, EnergySummary | ModelledSummary]
_Draw = Callable[[Any], None]


def _energies(runs: Sequence[RunSummary]) -> tuple[_Energies, list[str]]:
    """Energy by a run's place in the order given: measured where any was, else modelled, never both."""
    measured = {index: run.measured for index, run in enumerate(runs) if run.measured is not None}
    modelled = {index: run.modelled for index, run in enumerate(runs) if run.modelled is not None}
    if not measured:
        return modelled, []
    notes = [
        f"{runs[index].label}: its energy is modelled and stands in no figure beside measured energy"
        for index in modelled
    ]
    notes += [
        f"{runs[index].label}: energy {found.without_text}"
        for index, found in measured.items()
        if found.without
    ]
    return measured, notes


def _drawings(runs: Sequence[RunSummary], energies: _Energies) -> dict[str, tuple[float, _Draw]]:
    """What can be drawn, by name: height in inches, and how."""
    found: dict[str, tuple[float, _Draw]] = {}
    high = 0.1 + 0.12 * max(1 + _folded(f"{name_of(run, runs)}, {LEARNING}").count("\n") for run in runs)
    for metric in judged_by(runs):
        ours = [index for index, run in enumerate(runs) if run.learning.metric == metric]
        if any(runs[index].learning.final_score is not None for index in ours):
            found[metric.key] = 2.2, partial(_scores, runs=runs, metric=metric)
        spent = {index: energy for index, energy in energies.items() if index in ours}
        if any(bought(runs[index], energy) for index, energy in spent.items()):
            draw = partial(_per_joule, runs=runs, energies=spent, metric=metric)
            found[f"{metric.key}-per-joule"] = 2.2, draw
    if energies:
        found["energy"] = 0.85 + 2 * high * len(energies), lambda axes: _energy(axes, runs, energies)
        found["spent"] = 0.95 + high * len(energies), lambda axes: _spent(axes, runs, energies)
    if any(run.trainings.ordered for run in runs):
        found["outcomes"] = 0.75 + high * len(runs), lambda axes: _outcomes(axes, runs)
    for way, name in NAMES.items():
        if any(_links(run, way) for run in runs):
            found[f"{name}-per-megabyte"] = 2.2, partial(_per_megabyte, runs=runs, way=way)
    return found


def _scores(axes: Any, runs: Sequence[RunSummary], metric: Metric) -> None:
    lines = []
    for index, run in enumerate(runs):
        points = [point for point in run.learning.points if point.score is not None]
        if points and run.learning.metric == metric:
            scores = [metric.shown(point.score or 0.0) for point in points]
            line = _line(axes, index, [p.step for p in points], scores)
            line.set_drawstyle("steps-post")
            clouds = [at for at, point in enumerate(points) if point.cloud]
            line.set_markevery(clouds[:: 1 + len(clouds) // _MARKS])
            line.set_gid(f"{metric.key}-{index}")
            lines.append((line, name_of(run, runs)))
    for threshold in thresholds_of(metric, runs):
        axes.axhline(metric.shown(threshold), color=LIGHT["--muted"], linestyle=":", linewidth=0.8, zorder=1)
    axes.set(xlabel="step", ylabel=_axis(metric))
    if metric == ACCURACY:
        axes.set_ylim(bottom=0.0)
    _legend(axes, lines)


def _axis(metric: Metric) -> str:
    return "accuracy (%)" if metric == ACCURACY else metric.axis


def _per_joule(axes: Any, runs: Sequence[RunSummary], energies: _Energies, metric: Metric) -> None:
    lines = []
    for index, energy in energies.items():
        points = bought(runs[index], energy)
        if points:
            scores = [metric.shown(point.score) for point in points]
            line = _line(axes, index, [p.joules for p in points], scores)
            line.set_markevery(1 + len(points) // _MARKS)
            line.set_gid(f"{metric.key}-per-joule-{index}")
            lines.append((line, name_of(runs[index], runs)))
    axes.xaxis.set_major_formatter("{x:,.10g}")
    axes.set(xlabel=f"{_kind(energies)} {LEARNING} (J)", ylabel=_axis(metric))
    axes.set_xlim(left=0.0)
    if metric == ACCURACY:
        axes.set_ylim(bottom=0.0)
    _legend(axes, lines)


def _energy(axes: Any, runs: Sequence[RunSummary], energies: _Energies) -> None:
    """Joules used for learning of each run and, below, the wasted part; error bars of k = 2."""
    rows: list[tuple[str, str, Mapping[Phase, float], Energy]] = []
    for index, energy in energies.items():
        table = energy.gross
        name = name_of(runs[index], runs)
        spent = {item.phase: item.gross.joules for item in energy.phases if item.phase in ACTIVE_PHASES}
        rows.append((f"energy-{index}-consumed", f"{name}, {LEARNING}", spent, table.cumulative_consumed))
        rows.append((f"energy-{index}-wasted", "wasted", energy.wasted_by_phase, table.cumulative_wasted))
    _stacked(axes, [(gid, label, parts) for gid, label, parts, _ in rows])
    for at, (_, _, _, total) in enumerate(rows):
        u = 2.0 * total.u_joules
        axes.errorbar(total.joules, at, xerr=u, color=_EDGE, capsize=2, linewidth=0.8, fmt="none")
        axes.annotate(
            f"{total.joules:,.0f}" if total.joules >= 100.0 else f"{total.joules:.1f}",
            (total.joules + u, at),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
        )
    axes.margins(x=0.14)
    axes.set(xlabel=f"{_kind(energies)} (J)", xlim=(0.0, None))


def _spent(axes: Any, runs: Sequence[RunSummary], energies: _Energies) -> None:
    rows = [
        (
            f"spent-{index}",
            name_of(runs[index], runs),
            {item.phase: item.gross.joules for item in energy.phases},
        )
        for index, energy in energies.items()
    ]
    _stacked(axes, rows)
    axes.set(xlabel=f"{_kind(energies)} (J)", xlim=(0.0, None))


def _outcomes(axes: Any, runs: Sequence[RunSummary]) -> None:
    handles: dict[str, Any] = {}
    for at, run in enumerate(runs):
        left = 0
        for outcome, hatch in _OUTCOMES.items():
            name, colour = outcome.value, OUTCOME_COLOURS[outcome]
            count = getattr(run.trainings, name)
            if count:
                handles[name] = _bar(axes, at, count, left, painted(colour), hatch, f"outcomes-{at}-{name}")
                axes.annotate(
                    str(count),
                    (left + count / 2, at),
                    ha="center",
                    va="center",
                    fontsize=7,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85},
                )
                left += count
    axes.set(xlabel="local updates")
    _rows(axes, [name_of(run, runs) for run in runs])
    _legend(axes, [(handle, name) for name, handle in handles.items()])


def _links(run: RunSummary, way: Way) -> list[LinkPoints]:
    if run.comparison is None:
        return []
    points = link_points(run.comparison, ModelBasis.ACTUAL)
    return [group for group in points if group.direction == way]


def _per_megabyte(axes: Any, runs: Sequence[RunSummary], way: Way) -> None:
    """Net joules for a megabyte of every board, and Eq. 1 at the rates they had; bars and bands of k = 2."""
    handles: dict[str, Any] = {}
    for index, run in enumerate(runs):
        for group in _links(run, way):
            found = [part.per_megabyte(part.net) for _, part in group.boards]
            points = axes.errorbar(
                [part.achieved_mbit_s / 8.0 for _, part in group.boards],
                [value for value, _ in found],
                yerr=[2.0 * u for _, u in found],
                color=painted(RUN_COLOURS[index % 6]),
                marker=_MARKERS[index % 6],
                capsize=2,
                linewidth=0.8,
                linestyle="none",
            )
            points.lines[0].set_gid(f"{NAMES[way]}-per-megabyte-{index}-{group.link}")
            handles[f"{name_of(run, runs)}, {group.link}"] = points
            if group.line is not None:
                handles[f"Eq. 1, {group.link}"] = _model(axes, group.line)
    axes.set(xlabel="mean rate (MB/s)", ylabel="net energy (J/MB)")
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.grid(visible=True)
    _legend(axes, [(handle, name) for name, handle in handles.items()])


def _model(axes: Any, model: ModelLine) -> Any:
    low, high = (
        [value + sign * u for value, u in zip(model.j_per_mb, model.u_j_per_mb, strict=True)]
        for sign in (-2.0, 2.0)
    )
    axes.fill_between(model.mb_s, low, high, color=LIGHT["--muted"], alpha=0.25, linewidth=0)
    (line,) = axes.plot(model.mb_s, model.j_per_mb, color=_EDGE, linestyle="--", linewidth=0.8)
    return line


def _stacked(axes: Any, rows: Sequence[tuple[str, str, Mapping[Phase, float]]]) -> None:
    """Horizontal bars of joules by kind of time, the first row at the top."""
    handles: dict[str, Any] = {}
    for at, (gid, _, parts) in enumerate(rows):
        left = 0.0
        for phase in _phases():
            value = parts.get(phase, 0.0)
            if value > 0.0:
                colour = painted(PHASE_COLOURS[phase])
                bar = _bar(axes, at, value, left, colour, _HATCHES.get(phase, ""), f"{gid}-{phase.value}")
                handles.setdefault(phase.value, bar)
                left += value
    _rows(axes, [label for _, label, _ in rows])
    _legend(axes, [(handles[phase.value], phase.value) for phase in _phases() if phase.value in handles])


def _phases() -> Iterator[Phase]:
    """Work first, as the report stacks it."""
    yield from (phase for phase in Phase if phase in ACTIVE_PHASES)
    yield from (Phase.REST, Phase.WAIT, Phase.IDLE, Phase.ABSENT, Phase.LOST)


def _bar(axes: Any, at: int, width: float, left: float, colour: str, hatch: str, gid: str) -> Any:
    bar = axes.barh(at, width, 0.66, left, color=colour, hatch=hatch, edgecolor=_EDGE, linewidth=0.4)
    bar.patches[0].set_gid(gid)
    return bar


def _rows(axes: Any, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), [_folded(label) for label in labels], linespacing=1.0)
    axes.xaxis.set_major_formatter("{x:,.10g}")
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def _folded(label: str) -> str:
    """A row's name on at most three lines."""
    return "\n".join(wrap(label, 17)[:3])


def _line(axes: Any, index: int, x: Sequence[float], y: Sequence[float]) -> Any:
    (line,) = axes.plot(
        x,
        y,
        color=painted(RUN_COLOURS[index % 6]),
        linestyle=_DASHES[index % 6],
        marker=_MARKERS[index % 6],
    )
    axes.grid(visible=True)
    return line


def _legend(axes: Any, entries: Sequence[tuple[Any, str]]) -> None:
    handles, labels = [handle for handle, _ in entries], [shorten(label, 44) for _, label in entries]
    widest_in = 0.55 + 0.045 * max(map(len, labels), default=0)
    axes.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=max(1, min(len(labels), int((axes.figure.get_figwidth() - 0.5) / widest_in))),
        columnspacing=1.2,
        handlelength=2.2,
        borderaxespad=0.2,
    )


def _kind(energies: _Energies) -> str:
    basis = next(iter(energies.values())).gross.basis
    return "gross energy" if basis == "measured" else "modelled gross energy"


def _write(figure: Any, path: Path, kind: str) -> None:
    dated = {"pdf": "CreationDate", "svg": "Date"}
    content = BytesIO()
    figure.savefig(content, format=kind, metadata={dated[kind]: None} if kind in dated else None)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content.getvalue(), synced=False)
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror or error}") from None


def _library() -> tuple[Any, Any]:
    """matplotlib, and its figure of no window."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise missing(error, "matplotlib", "figures") from None
    return matplotlib, Figure
