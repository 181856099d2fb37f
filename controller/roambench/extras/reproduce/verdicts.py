"""The page of verdicts: a line for each claim of a paper, made of the catalogue and of the kept claims."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from roambench.contract.counts import count
from roambench.extras.papers.alike import leaves
from roambench.extras.reproduce.catalogue import Catalogue, Claim, Study
from roambench.extras.reproduce.claims import ClaimVerdict
from roambench.extras.reproduce.figures_csv import CLAIMS, TABLES, Rows, read_rows
from roambench.extras.reproduce.scale import Scale
from roambench.extras.reproduce.study_page import BESIDE
from roambench.report.markdown import cell
from roambench.report.report import write_text
from roambench.study.sweep.points import text

PAGE: Final = "README.md"
BEGIN: Final = "<!-- verdicts: made by roambench reproduce --verdicts -->"
END: Final = "<!-- end of verdicts -->"
_OUTCOMES: Final = {
    ClaimVerdict.REPRODUCED: "reproduced",
    ClaimVerdict.FITTED: "fitted, not reproduced",
    ClaimVerdict.WRONG_SIGN: "**reversed**",
    ClaimVerdict.UNDECIDED: "undecided",
    ClaimVerdict.ONE_SEED: "one seed: not tested",
    ClaimVerdict.NOT_TRIED: "not tried",
}
_BY_TEXT: Final = {text: one for one in ClaimVerdict for text in (one.value, one.of_ours)}
_HEAD: Final = "| claim | outcome | ours, beside | lead |\n| --- | --- | ---: | ---: |"
_OURS: Final = "Questions of our own"


def renew_page(folder: Path, catalogue: Catalogue) -> None:
    """Write the verdicts of the kept claims into the page of `folder`, between its markers."""
    write_text(folder / PAGE, page_text(folder, catalogue))


def page_text(folder: Path, catalogue: Catalogue) -> str:
    """The page of `folder` with the verdicts of the claims that are kept there."""
    path = folder / PAGE
    page = path.read_text("utf-8") if path.is_file() else f"# Verdicts\n\n{BEGIN}\n{END}\n"
    before, _, rest = page.partition(f"{BEGIN}\n")
    _, _, after = rest.partition(f"{END}\n")
    made = "\n".join(_lines(catalogue, read_rows(folder / CLAIMS)[1:], read_rows(folder / TABLES)[1:]))
    return f"{before}{BEGIN}\n{made}\n{END}\n{after}"


def _lines(catalogue: Catalogue, rows: Rows, tables: Rows) -> Iterator[str]:
    papers = {study.name: _paper(catalogue, study) for study in catalogue.studies}
    yield ""
    for scale in Scale:
        verdicts = [
            _BY_TEXT[row[3]] for row in rows if row[1] == scale and papers.get(row[0], _OURS) != _OURS
        ]
        if verdicts:
            counts = [(verdicts.count(one), _OUTCOMES[one]) for one in _OUTCOMES if one in verdicts]
            parts = ", ".join(f"{count} {outcome.strip('*')}" for count, outcome in counts)
            yield f"- At `{scale}`, {count(len(verdicts), 'claim')}: {parts}."
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
        yield "\n".join(f"{command}  " for command in _commands(study, mine)).rstrip() + "\n"
        yield _HEAD
        for claim in study.claims:
            yield from _claim(claim, [row for row in mine if row[2] == claim.says])
        for scale in Scale:
            yield from _printed([row for row in tables if row[:2] == [study.name, scale]], scale)


def _commands(study: Study, rows: Rows) -> Iterator[str]:
    for scale in Scale:
        seeds = [int(row[-1]) for row in rows if row[1] == scale and row[-1]]
        if seeds:
            option = "" if scale is Scale.SMALL else f" --scale {scale}"
            most = f"{min(seeds)} to {max(seeds)}" if len(set(seeds)) > 1 else f"{seeds[0]}"
            yield f"`roambench reproduce {study.name}{option}`, {most} seeds"


def _claim(claim: Claim, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for place, row in enumerate(rows):
        _, scale, says, outcome, ours, unit, beside, _, whom, bound, lead, half, lead_unit, _ = row
        verdict = _BY_TEXT[outcome]
        first = cell(says) if place == 0 else f"at `{scale}`"
        if verdict is not ClaimVerdict.UNDECIDED and (why := _reason(claim, scale)):
            first += f" *({cell(why)})*"
        pair = (f"{ours}, {beside}", unit, f"({cell(_rival(claim, whom))})")
        cells = (
            first,
            _OUTCOMES[verdict],
            _joined(*(pair if claim.against else (ours, unit))),
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


def _printed(rows: Rows, scale: Scale) -> Iterator[str]:
    """A line of our figures at this scale with the paper's in brackets."""
    shown: dict[str, dict[str, str]] = {}
    for _, _, table, name, column, bound, value, _, unit, _ in rows:
        if table == BESIDE:
            shown.setdefault(name, {})[column] = _joined(bound, value, unit)
    parts: dict[str, dict[str, dict[str, str]]] = {}
    for name, one in shown.items():
        item, where, _, figure = name.split("; ")
        parts.setdefault(f"{item}, {figure}", {})[where.removeprefix("systems ")] = one
    if parts:
        lines = [f"{what}, {'; '.join(_figures(found))}" for what, found in parts.items()]
        at = "" if scale is Scale.SMALL else f" at `{scale}`"
        yield f"\nOurs{at} (the paper's). {'. '.join(lines)}.".replace("_", "\\_")


def _figures(found: dict[str, dict[str, str]]) -> Iterator[str]:
    """Ours with the paper's in brackets; two of joules have their ratio, for boards and work differ."""
    for where, one in found.items():
        yield f"{where}: {one['ours']} ({one['paper'].removesuffix(' %')})"
    if len(found) == 2 and all(one["paper"].endswith(" J") for one in found.values()):
        first, second = found.values()
        ours, paper = (float(second[of].split()[0]) / float(first[of].split()[0]) for of in ("ours", "paper"))
        yield f"ratio {ours:.2f} ({paper:.2f})"


def _reason(claim: Claim, scale: str) -> str:
    """The first clause of the likely reason; the page of the study has all of it."""
    why = re.split(r"[.;:] ", claim.why.get(Scale(scale), ""))[0].rstrip(".")
    return "" if why.startswith("See the") else why


def _paper(catalogue: Catalogue, study: Study) -> str:
    return next((item.paper for item in catalogue.items if item.study == study.name), _OURS)


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
