"""The page of verdicts: a line for each claim of a paper, made of the catalogue and of the kept claims."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from roambench.contract.counts import count
from roambench.contract.errors import RunError
from roambench.extras.papers.alike import leaves
from roambench.extras.papers.mohawk import JOULES, ROUNDS, SYSTEMS
from roambench.extras.reproduce.catalogue import Catalogue, Claim, Study
from roambench.extras.reproduce.claims import ClaimVerdict
from roambench.extras.reproduce.figures_csv import CLAIMS, RAN, TABLES, CellParts, Rows, kept_rows, read_rows
from roambench.extras.reproduce.scale import Scale
from roambench.extras.reproduce.study_page import BESIDE
from roambench.report.markdown import cell
from roambench.report.numbers import NONE
from roambench.report.report import write_text
from roambench.study.sweep.points import text

PAGE: Final = "README.md"
BEGIN: Final = "<!-- verdicts: made by roambench reproduce --verdicts -->"
END: Final = "<!-- end of verdicts -->"
#: The title of what was run (`scale_table`).
RUN: Final = "What was run"
_SO_FAR: Final = "so far"
_HEAD: Final = "| claim | outcome | ours, beside | lead |\n| --- | --- | ---: | ---: |"
_OURS: Final = "Questions of our own"


def renew_page(folder: Path, catalogue: Catalogue) -> None:
    """Write the verdicts of the kept claims into the page of `folder`, between its markers."""
    write_text(folder / PAGE, page_text(folder, catalogue))


def unfit_folder(folder: Path, catalogue: Catalogue) -> list[str]:
    """A line for each file of `folder` into which nothing can be put: kept figures, or the page."""
    if folder.exists() and not folder.is_dir():
        return [f"--verdicts {folder}: expected a folder, got a file"]
    found = dict[str, None]()
    for name in (CLAIMS, TABLES, RAN, PAGE):
        try:
            page_text(folder, catalogue) if name == PAGE else kept_rows(folder, name)
        except RunError as error:
            found[str(error)] = None
    return list(found)


def page_text(folder: Path, catalogue: Catalogue) -> str:
    """The page of `folder` with the verdicts of the claims that are kept there; RunError unless its markers
    are there once each: words below them would be lost."""
    path = folder / PAGE
    try:
        page = path.read_text("utf-8") if path.is_file() else f"# Verdicts\n\n{BEGIN}\n{END}\n"
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path}: expected a page in UTF-8: {error}") from None
    lines = page.splitlines()
    if [line for line in lines if line in (BEGIN, END)] != [BEGIN, END]:
        raise RunError(f"{path}: expected the lines {BEGIN} and, below it, {END}, once each")
    made = "\n".join(_lines(folder, catalogue))
    parts = (*lines[: lines.index(BEGIN) + 1], made, *lines[lines.index(END) :])
    return "".join(f"{part}\n" for part in parts)


def _lines(folder: Path, catalogue: Catalogue) -> Iterator[str]:
    rows, tables = (kept_rows(folder, name) for name in (CLAIMS, TABLES))
    says = {(study.name, claim.says) for study in catalogue.studies for claim in study.claims}
    rows = [row for row in rows if (row[0], row[2]) in says]
    ran = {(row[0], row[1]): row[3:] for row in kept_rows(folder, RAN)}
    papers = {study.name: _paper(catalogue, study) for study in catalogue.studies}
    yield ""
    for scale in Scale:
        verdicts = [
            ClaimVerdict(row[3]) for row in rows if row[1] == scale and papers.get(row[0], _OURS) != _OURS
        ]
        if verdicts:
            parts = "; ".join(f"{verdicts.count(one)} {one}" for one in ClaimVerdict if one in verdicts)
            yield f"- At `{scale}`, {count(len(verdicts), 'claim')} of papers: {parts}."
    heading = ""
    for study in sorted(catalogue.studies, key=lambda one: papers[one.name] == _OURS):
        mine = [row for row in rows if row[0] == study.name]
        if not mine:
            continue
        paper = papers[study.name]
        if paper not in (heading, _OURS):
            yield f"\n## {paper}"
        heading = paper
        yield f"\n{'##' if paper == _OURS else '###'} {study.title}\n"
        yield "\n".join(f"{command}  " for command in _commands(study, mine, ran)).rstrip() + "\n"
        yield _HEAD
        for claim in study.claims:
            yield from _claim(claim, [row for row in mine if row[2] == claim.says])
        own = [row for row in tables if row[0] == study.name]
        yield from _printed(own)
        if study.beside == "mohawk" and any(row[1] == Scale.MEDIUM for row in mine):
            runs = read_rows(folder / f"{study.name}-{Scale.MEDIUM}.csv")
            yield from _cells(runs, [row for row in own if row[1] == Scale.MEDIUM])


def _commands(study: Study, rows: Rows, ran: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[str]:
    for scale in Scale:
        there = [row[-1] for row in rows if row[1] == scale]
        if there:
            sweep = study.sweep(scale)
            words = ["roambench reproduce", study.name]
            words += [] if scale is Scale.SMALL else ["--scale", scale]
            words += ["--trace", sweep.trace] if sweep is not None and sweep.trace else []
            said = [f"`{' '.join(words)}`"]
            if seeds := sorted({int(seeds) for seeds in there if seeds}):
                low, high = seeds[0], seeds[-1]
                said.append(count(low, "seed") if low == high else f"{low} to {high} seeds")
            ended, in_all = ran.get((study.name, scale), ("", ""))
            said += [f"{ended} of {in_all} runs"] if ended != in_all else []
            yield ", ".join(said) + (f": {gap}" if (gap := study.gap.get(scale)) else "")


def _claim(claim: Claim, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    tried = [row for row in rows if row[3] != ClaimVerdict.NOT_TRIED]
    for place, row in enumerate(tried or rows):
        _, scale, says, kept, least, ours, unit, other, beside, _, whom, bound, lead, half, lead_unit, _ = row
        outcome = ClaimVerdict(kept)
        first = cell(says) if place == 0 else f"at `{scale}`"
        if outcome.has_reason and (why := _reason(claim, scale)):
            first += f" *({cell(why)})*"
        own = _joined(least, ours)
        pair = (f"{own}, {_joined(other, beside)}", unit, f"({cell(_rival(claim, whom))})")
        cells = (
            first,
            f"**{outcome}**" if outcome is ClaimVerdict.WRONG_SIGN else str(outcome),
            _joined(*(pair if claim.against else (own, unit))) if ours else NONE,
            _joined(bound, f"{lead} ± {half}" if half else lead, lead_unit),
        )
        yield f"| {' | '.join(cells)} |"


def _rival(claim: Claim, whom: str) -> str:
    """The values of the runs beside, all in `whom`, that those of the claim do not have."""
    own = list(leaves(claim.of))
    for one in claim.against:
        values = list(leaves(one))
        if ", ".join(text(value) for _, value in values) == whom:
            others = [(key.rpartition(".")[2], value) for key, value in values if (key, value) not in own]
            return ", ".join(
                text(value) if key == "systems" else f"{key} {text(value)}" for key, value in others
            )
    return whom


def _printed(tables: Rows) -> Iterator[str]:
    """For each item of which the paper's figures are known a table of ours with the paper's in brackets: of
    one figure a row for each setting, else a row for each figure and a column for each setting."""
    items: dict[str, dict[tuple[str, str], dict[str, dict[str, str]]]] = {}
    measured = set[str]()
    for _, scale, table, name, column, bound, value, _, meters, unit, _ in tables:
        if table == BESIDE:
            item, where, _, figure = name.split("; ")
            cells = items.setdefault(item, {}).setdefault((figure, scale), {})
            short, short_unit = _short(value, unit)
            cells.setdefault(where.removeprefix("systems "), {})[column] = _joined(
                bound, short, f"[± {meters}]" if meters else "", short_unit
            )
            measured |= {item} if meters else set()
    for item, figures in items.items():
        names = list(dict.fromkeys(figure for figure, _ in figures))
        settings = list(dict.fromkeys(where for found in figures.values() for where in found))
        shown = dict(zip(settings, _told_apart(settings), strict=True))
        scales = list(dict.fromkeys(scale for _, scale in figures))
        rows = [
            (figure.replace(" j", ", J") if scale == scales[0] else f"at `{scale}`", figures[figure, scale])
            for figure in names
            for scale in scales
            if (figure, scale) in figures
        ]
        if len(rows) == 1:
            ((figure, found),) = rows
            yield from _table(
                (f"{item}: {figure}", "ours", "the paper's"),
                ((shown[where], one.get("ours", NONE), one["paper"]) for where, one in found.items()),
            )
            continue
        pair = len(settings) == 2
        yield from _table(
            (
                f"{item}: ours{' [± of meters]' if item in measured else ''} (the paper's)",
                *shown.values(),
                *(["ratio"] if pair else []),
            ),
            (
                (
                    name,
                    *(
                        f"{one.get('ours', NONE)} ({one['paper']})" if (one := found.get(where)) else NONE
                        for where in settings
                    ),
                    *([_ratio(*(found.get(where, {}) for where in settings))] if pair else []),
                )
                for name, found in rows
            ),
        )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> Iterator[str]:
    """The first `words` columns have words."""
    yield ""
    for row in (head, ["---"] * words + ["---:"] * (len(head) - words), *rows):
        yield f"| {' | '.join(row)} |".replace("_", "\\_")


def _told_apart(settings: Sequence[str]) -> list[str]:
    """Without the values that all have."""
    parts = [setting.split(", ") for setting in settings]
    return [
        ", ".join(part for part in some if not all(part in others for others in parts)) or setting
        for some, setting in zip(parts, settings, strict=True)
    ]


def _short(value: str, unit: str) -> tuple[str, str]:
    return (f"{float(value) / 1e3:,.0f}", "kJ") if unit == "J" and float(value) >= 1e5 else (value, unit)


def _ratio(first: Mapping[str, str], second: Mapping[str, str]) -> str:
    """The second setting's figure over the first's, for boards and work differ, with the places that both
    have; the paper's in brackets; none of a bound."""

    def over(of: str) -> str:
        above, below = (CellParts.parse(one.get(of, "")) for one in (second, first))
        if above.bound or below.bound or not above.value or not float(below.value or 0.0):
            return NONE
        ratio = float(above.value) / float(below.value)
        unsure = (_rounding(above.value) + ratio * _rounding(below.value)) / float(below.value)
        return f"{ratio:.{2 if 2.0 * unsure <= 0.01 else 1}f}"

    return f"{over('ours')} ({over('paper')})"


def _rounding(value: str) -> float:
    """Half of a figure's last place."""
    return 0.5 * 10.0 ** -len(value.partition(".")[2])


def _cells(rows: Rows, tables: Rows) -> Iterator[str]:
    """MOHAWK's Tables 4 and 6: every cell of which a run ended or began, its seeds in turn; the paper's."""
    said = {
        row[3]: _joined(row[6], row[9]) or row[10] for row in tables if row[2] == RUN and row[4] == "ours"
    }
    cells: dict[tuple[str, int, str], list[dict[str, str]]] = {}
    for row in rows[1:]:
        run = dict(zip(rows[0], row, strict=True))
        cells.setdefault((run["data"], int(run["k2"]), run["system"]), []).append(run)
    shown = []
    for (data, k2, system), runs in sorted(cells.items(), key=lambda cell: cell[0][:2]):
        paper = [of.get((said["data set"], data, k2)) for of in (ROUNDS, JOULES)]
        rounds, joules = (f" ({of[SYSTEMS.index(system)]:.4g})" if of else "" for of in paper)
        ended = [run for run in runs if run.get("rounds note") != _SO_FAR]
        least = "≥" if any(run.get("rounds bound") for run in ended) else ""
        cost = _joined(least, _mean(ended, "J per client", 1))
        reached = (
            _joined(run.get("rounds bound", ""), run["rounds"], run.get("rounds note", "")) for run in runs
        )
        shown.append(
            (
                f"{data}, {k2}",
                system,
                f"{', '.join(reached)}{rounds}",
                f"{cost}{joules}",
                _mean(ended or runs, "last (%)", 2),
            )
        )
    yield from _table(
        (
            f"{said['data set']}: data, k2",
            "system",
            f"rounds to {said['accuracy threshold']} (the paper's)",
            "J a client until then",
            "accuracy, %",
        ),
        shown,
        words=2,
    )


def _mean(runs: Sequence[Mapping[str, str]], column: str, places: int) -> str:
    values = [float(run[column]) for run in runs if run.get(column)]
    return f"{math.fsum(values) / len(values):.{places}f}" if values else NONE


def _reason(claim: Claim, scale: str) -> str:
    """The first clause of the likely reason; the page of the study has all of it."""
    why = re.split(r"[.;:] ", claim.why.get(Scale(scale), ""))[0].rstrip(".")
    return "" if why.startswith("See the") else why


def _paper(catalogue: Catalogue, study: Study) -> str:
    return next((item.paper for item in catalogue.items if item.study == study.name), _OURS)


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
