"""The catalogue of the papers' tables and figures: what is behind each at which scale, what is missing.

It is data, `experiments/reproduction.toml`: studies (sweeps that answer for several tables at once), the
items of the papers, the claims that a study's runs decide, and figures that a paper prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from roambench.contract.errors import ConfigError
from roambench.experiment.sections import Experiment
from roambench.extras.papers.alike import leaves
from roambench.extras.reproduce.scale import CATALOGUE, Scale
from roambench.study.sweep.metrics import METRICS, metric_of
from roambench.written.expected import field_at
from roambench.written.mistakes import did_you_mean, mistakes_of
from roambench.written.toml_file import Section, read_toml

#: Values of an experiment's keys, "systems" for the run's system: {"systems": "mohawk", "fleet.aps": 20}.
Values = Mapping[str, Any]
#: A scale's name as a key of TOML.
_ScaleKey = Annotated[Scale, Field(strict=False)]


class StudySweep(Section):
    """A study's sweep at one scale."""

    file: str = Field(min_length=1, description="Sweep file, relative to the catalogue's folder.")
    lasts: str = Field(min_length=1, description="How long it takes on what, in words.")
    needs: list[str] = Field(default=[], description="Files that no checkout has, with their sources.")
    trace: str = Field(default="", description="File of the recorded trace on which it runs, if it does.")


class Claim(Section):
    """A sentence of a paper that a study's runs decide: in `metric`, runs with the values `of` against those
    with each of `against`, all else alike, or against 0."""

    says: str = Field(min_length=1, description="The claim, in our words, and where the paper makes it.")
    metric: str = Field(description="A metric of a sweep.")
    of: dict[str, Any] = Field(min_length=1, description="Values of the runs that are said to be better.")
    against: list[dict[str, Any]] = Field(
        default=[], description="Values of those beside them, one by one; none: the metric itself against 0."
    )
    better: Literal["more", "less"] = Field(description="Whether the paper says that they have more or less.")
    margin: float = Field(
        default=0.0,
        ge=0.0,
        description="How much worse is no worse: what the paper calls alike, in the metric's own unit "
        "(shares: 0 to 1); the sentence names it.",
    )
    fitted: dict[str, Any] = Field(
        default={}, description="Values of runs whose world was fitted to the paper's figures of this claim."
    )
    at: list[_ScaleKey] = Field(
        default=list(Scale), description="Scales whose runs say something of it; default: all."
    )
    why: dict[_ScaleKey, str] = Field(
        default={},
        description="The likely reason where it is not reproduced, at each scale; pages have it where the "
        "claim is reversed or fitted.",
    )


class PrintedFigure(Section):
    """A figure that the paper prints for the runs with these values."""

    item: str = Field(description="Table or figure, as the items have it.")
    metric: str = Field(description="A metric of a sweep.")
    where: dict[str, Any] = Field(min_length=1, description="Values of our runs beside which it stands.")
    value: float = Field(description="The paper's figure, in the metric's own unit (shares: 0 to 1).")
    setting: str = Field(
        default="",
        pattern="^[^;]*$",
        description="What the paper's runs had instead; no semicolon.",
    )


class Study(Section):
    """Sweeps that answer for some of a paper's tables and figures, one for each scale that there is."""

    name: str = Field(pattern="^[a-z0-9-]+$", description="What `roambench reproduce` calls it.")
    title: str = Field(min_length=1, description="Heading of its page.")
    beside: Literal["", "mohawk", "dam", "workshop", "de-heredia"] = Field(
        default="", description="Paper whose own tables `roambench results` sets beside these runs."
    )
    small: StudySweep | None = Field(
        default=None, description="Minutes on two cores, with data that always is there."
    )
    medium: StudySweep | None = Field(default=None, description="Hours on two cores.")
    full: StudySweep | None = Field(default=None, description="The paper's own scale.")
    gap: dict[_ScaleKey, str] = Field(default={}, description="What each scale has less of than the paper.")
    claims: list[Claim] = Field(default=[], alias="claim", description="What its runs decide.")
    printed: list[PrintedFigure] = Field(default=[], description="Figures of the paper beside ours.")

    def sweep(self, scale: Scale) -> StudySweep | None:
        """The sweep at this scale, if there is one."""
        return {Scale.SMALL: self.small, Scale.MEDIUM: self.medium, Scale.FULL: self.full}[scale]


class Item(Section):
    """A table or figure of a paper."""

    paper: str = Field(min_length=1, description="The paper, as the page of algorithms calls it.")
    label: str = Field(pattern="^[^;]+$", description="Table 4, Fig. 9, ...; no semicolon.")
    shows: str = Field(min_length=1, description="What it shows.")
    study: str = Field(default="", description="The study that answers for it; empty: none.")
    at: list[_ScaleKey] = Field(default=list(Scale), description="Scales whose runs show it; default: all.")
    missing: str = Field(default="", description="What of it no study has, and why.")


class Catalogue(Section):
    """Everything there is to reproduce."""

    studies: list[Study] = Field(alias="study", description="Sweeps, each for several items.")
    items: list[Item] = Field(alias="item", description="Tables and figures of the papers.")

    def study(self, name: str) -> Study:
        """The study of this name; ConfigError as `chosen`."""
        return self.chosen([name])[0]

    def chosen(self, names: Sequence[str]) -> list[Study]:
        """The studies of these names, each once; ConfigError for other names lists those there are."""
        there = {study.name: study for study in self.studies}
        names = list(dict.fromkeys(names))
        if unknown := [name for name in names if name not in there]:
            known = list(there)
            raise ConfigError(
                [
                    f"no study {name!r}: expected one of {', '.join(known)}{did_you_mean(name, known)}"
                    for name in unknown
                ]
            )
        return [there[name] for name in names]

    def only(self, names: Sequence[str]) -> Catalogue:
        """The same of these studies and what they answer for; ConfigError as `chosen`."""
        items = [item for item in self.items if item.study in names]
        return self.model_copy(update={"studies": self.chosen(names), "items": items})


def read_catalogue(path: Path = CATALOGUE) -> Catalogue:
    """The catalogue of a checkout; ConfigError lists every mistake, or says that a checkout is needed."""
    if not path.is_file():
        raise ConfigError(
            [f"{path}: no such file: the sweeps of the papers come with a checkout; run this in its root"]
        )
    try:
        catalogue = Catalogue.model_validate(read_toml(path))
    except ValidationError as error:
        raise ConfigError([f"{path.name}: {mistake}" for mistake in mistakes_of(error, Catalogue)]) from None
    if problems := list(_mistakes(catalogue, path)):
        raise ConfigError([f"{path.name}: {problem}" for problem in problems])
    return catalogue


def _mistakes(catalogue: Catalogue, path: Path) -> Iterator[str]:
    names = [study.name for study in catalogue.studies]
    yield from (f"study {name}: expected once" for name in sorted({n for n in names if names.count(n) > 1}))
    for item in catalogue.items:
        where = f"item {item.paper}, {item.label}"
        if item.study and item.study not in names:
            yield f"{where}: study: expected one of {', '.join(names)}, got {item.study}"
        if not item.study and not item.missing:
            yield f"{where}: missing: expected why no study has it"
    for study in catalogue.studies:
        for scale in Scale:
            sweep = study.sweep(scale)
            if sweep is not None and not (path.parent / sweep.file).is_file():
                yield f"study {study.name}: {scale}: file: {sweep.file} does not exist"
            if sweep is not None and scale is not Scale.FULL and not study.gap.get(scale):
                yield f"study {study.name}: gap.{scale}: expected what {scale} has less of than the paper"
        for metric in [*(claim.metric for claim in study.claims), *(one.metric for one in study.printed)]:
            if metric_of(metric) is None:
                yield f"study {study.name}: metric {metric}: unknown{did_you_mean(metric, list(METRICS))}"
        for claim in study.claims:
            row = metric_of(claim.metric)
            margin = f"{100.0 * claim.margin if row is not None and row.share else claim.margin:g}"
            if claim.margin and margin not in claim.says:
                yield f"study {study.name}: margin: expected {margin} in its sentence, got {claim.says}"
        claimed = [claim.says for claim in study.claims]
        for says in sorted({one for one in claimed if claimed.count(one) > 1}):
            yield f"study {study.name}: claim: expected once: {says}"
        for key in sorted({key for values in _values(study) for key, _ in leaves(values)}):
            if field_at(Experiment, key.split(".")) is None:
                yield f"study {study.name}: {key}: expected a key of an experiment, or systems"
        labels = {item.label for item in catalogue.items if item.study == study.name}
        for one in study.printed:
            if one.item not in labels:
                known = ", ".join(sorted(labels))
                yield f"study {study.name}: printed: item: expected one of {known}, got {one.item}"


def _values(study: Study) -> Iterator[Values]:
    for claim in study.claims:
        yield from (claim.of, claim.fitted, *claim.against)
    yield from (one.where for one in study.printed)
