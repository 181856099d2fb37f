"""The list of the papers' tables and figures: what of each ran, when, on which data, and what came out."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from roambench.extras.reproduce.catalogue import Catalogue, Item, Study, StudySweep
from roambench.extras.reproduce.claims import ClaimVerdict
from roambench.extras.reproduce.figures_csv import CLAIMS, RAN, kept_rows
from roambench.extras.reproduce.scale import Scale

_NAMED: Final = re.compile(r"(Table|Fig)s?\.? ((?:\d+[a-z]?|II)(?:(?:, | and | to )\d+[a-z]?)*)")
_NONE: Final = "none to fetch"


def list_text(catalogue: Catalogue, kept: Path) -> str:
    """Each table and figure with its study and the outcomes in the folder `kept`; then the studies with
    their scales and data."""
    lines: list[str] = []
    for number, item in enumerate(catalogue.items):
        if number == 0 or item.paper != catalogue.items[number - 1].paper:
            lines += ["", item.paper]
        lines.append(f"  {item.label}: {item.shows}" + (f"  [{item.study}]" if item.study else ""))
        ran = list(_ran(catalogue, item, kept))
        for one in ran:
            counts = "; ".join(f"{count} {outcome}" for outcome, count in one["outcomes"].items())
            counts = counts or "curves and figures, no claim"
            when = f"{one['day']}{_part(one['runs'], one['of'])}"
            lines.append(f"      {one['scale']}, {when}: {counts}; data: {one['data']}")
        if not ran:
            lines.append("      nothing ran")
        if item.missing:
            lines.append(f"      missing: {item.missing}")
    lines += ["", "Studies: roambench reproduce STUDY [--scale small|medium|full]"]
    for study in catalogue.studies:
        lines.append(f"  {study.name}: {study.title}")
        there = {one["scale"]: one for one in _of_study(study, kept)}
        for scale in Scale:
            if sweep := study.sweep(scale):
                ended = "not run here"
                if found := there.get(scale):
                    ended = f"ran until {found['day']}{_part(found['runs'], found['of'])}, "
                    ended += f"{kept}/{study.name}-{scale}.csv"
                    ended += "".join(f"; {count} {outcome}" for outcome, count in found["outcomes"].items())
                lines.append(f"      {scale}: {ended}; takes {sweep.lasts}; data: {_data(sweep)}")
    return "\n".join(lines[1:])


def wrapped(text: str, columns: int) -> str:
    """The list for a terminal: what a line has no room for stands below it, further in."""
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        lines += textwrap.wrap(
            line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(lines)


def list_document(catalogue: Catalogue, kept: Path) -> dict[str, Any]:
    """The same for programs."""
    return {
        "schema": "roambench.reproduce/1",
        "items": [_document(catalogue, item, kept) for item in catalogue.items],
        "studies": [
            {
                "study": study.name,
                "title": study.title,
                "scales": _scales(study),
                "ran": list(_of_study(study, kept)),
            }
            for study in catalogue.studies
        ],
    }


def _document(catalogue: Catalogue, item: Item, kept: Path) -> dict[str, Any]:
    return {
        "paper": item.paper,
        "item": item.label,
        "shows": item.shows,
        "study": item.study or None,
        "missing": item.missing or None,
        "scales": _scales(catalogue.study(item.study)) if item.study else {},
        "ran": list(_ran(catalogue, item, kept)),
    }


def _scales(study: Study) -> dict[str, dict[str, Any]]:
    sweeps = {scale: study.sweep(scale) for scale in Scale}
    return {
        scale.value: {"file": sweep.file, "lasts": sweep.lasts, "needs": sweep.needs}
        for scale, sweep in sweeps.items()
        if sweep is not None
    }


def _ran(catalogue: Catalogue, item: Item, kept: Path) -> Iterator[dict[str, Any]]:
    """For each scale that ran: its day, its data, and how many of the claims on this item came out how."""
    if item.study:
        for one in _of_study(catalogue.study(item.study), kept, _named(item.label)):
            if one["scale"] in item.at:
                yield one


def _of_study(study: Study, kept: Path, named: set[str] | None = None) -> Iterator[dict[str, Any]]:
    """The same of a study: of all its claims, or of those on the tables and figures `named`."""
    claims = [row for row in kept_rows(kept, CLAIMS) if row[0] == study.name]
    for name, scale, day, runs, in_all in kept_rows(kept, RAN):
        if name == study.name:
            outcomes = Counter(
                row[3] for row in claims if row[1] == scale and (named is None or _named(row[2]) & named)
            )
            sweep = study.sweep(Scale(scale))
            data = "; ".join(need.partition(" (")[0] for need in sweep.needs) if sweep is not None else ""
            yield {
                "scale": scale,
                "day": day,
                "runs": int(runs),
                "of": int(in_all),
                "data": data or _NONE,
                "outcomes": {str(one): outcomes[one] for one in ClaimVerdict if outcomes[one]},
            }


def _part(runs: int, of: int) -> str:
    return "" if runs == of else f", {runs} of {of} runs"


def _named(words: str) -> set[str]:
    """The tables and figures in a text: {"Fig 9", "Fig 10"} of "Figs. 9 to 10"; II is 2."""
    found: set[str] = set()
    for kind, numbers in _NAMED.findall(words):
        places = [int(digits) for digits in re.findall(r"\d+", numbers.replace("II", "2"))]
        if " to " in numbers:
            places = list(range(places[0], places[-1] + 1))
        found |= {f"{kind} {place}" for place in places}
    return found


def _data(sweep: StudySweep) -> str:
    return "; ".join(sweep.needs) or _NONE
