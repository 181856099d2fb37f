"""Link models on disk: TOML files that `roambench calibrate` writes and experiments and `compare` name."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, Strict, ValidationError

from roambench.contract.errors import ConfigError
from roambench.contract.link_power import LinkPower
from roambench.contract.whole_file import write_whole
from roambench.energy.links.models import BUILT_IN, KnownLink, LinkModel, Matrix, Provenance
from roambench.written.lines import KeyLines
from roambench.written.mistakes import did_you_mean, mistakes_of
from roambench.written.toml_file import Section, read_toml

#: Where a bare name is looked for, beside the built-in ones.
LINKS_FOLDER = "links"


def load_link_model(name: str, folder: Path | None = None) -> LinkModel:
    """The model of that name: built in ("mohawk"), a file, or `links/<name>.toml` in `folder`.

    `folder` is where relative names begin (default: the current one). ConfigError lists every mistake in
    the file, or says which names there are.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    base = Path() if folder is None else folder
    path = link_model_path(name, base)
    if path is not None:
        return read_link_model(path)
    known = [*BUILT_IN, *sorted(path.stem for path in (base / LINKS_FOLDER).glob("*.toml"))]
    raise ConfigError(
        [
            f"link model {name!r}: expected a file, or one of {', '.join(known)}"
            f"{did_you_mean(name, known)}; `roambench calibrate` makes them"
        ]
    )


def link_model_path(name: str, folder: Path) -> Path | None:
    """The file that `name` means in `folder`; None for a built-in name or where there is none."""
    candidates = () if name in BUILT_IN else (folder / name, folder / LINKS_FOLDER / f"{name}.toml")
    return next((path for path in candidates if path.is_file()), None)


def read_link_model(path: Path) -> LinkModel:
    """A model file; ConfigError names the file and every key that is wrong."""
    values = read_toml(path, str(path))
    try:
        file = _File.model_validate(values)
    except ValidationError as error:
        mistakes = (f"{path}: {mistake}" for mistake in mistakes_of(error, _File))
        raise ConfigError(KeyLines(path).put_in(mistakes, str(path))) from None
    problems = [
        f"{path}: {table}.{name}.covariance: expected 3 rows of 3 numbers, symmetric, with a diagonal ≥ 0"
        for table, links in (("links", file.links), ("devices", file.devices))
        for name, link in links.items()
        if _matrix(link.covariance) is None
    ]
    if problems:
        raise ConfigError(KeyLines(path).put_in(problems, str(path)))
    low, high = file.rates_mbit_s or (0.0, math.inf)
    up, down, beta = file.between_sd or (math.nan,) * 3
    return LinkModel(
        file.name,
        {name: _known(file.name, link) for name, link in file.links.items()},
        Provenance(file.source, file.date, file.meter, file.method, file.run, (low, high)),
        {name: _known(file.name, link) for name, link in file.devices.items()},
        (up, down, beta),
    )


def write_link_model(path: Path, model: LinkModel) -> None:
    """Write `model` so that `read_link_model` gives it back; ConfigError where the file cannot be written."""
    about = model.about
    lines = [
        "# Parameters of P = alpha t + beta (t in Mbit/s), fitted on a bench by `roambench calibrate`.",
        "# covariance: rows and columns in the order alpha_up, alpha_down, beta.",
        "format = 1",
        *(
            f"{key} = {json.dumps(value, ensure_ascii=False)}"
            for key, value in (
                ("name", model.name),
                ("source", about.source),
                ("date", about.date),
                ("meter", about.meter),
                ("method", about.method),
                ("run", about.run),
            )
        ),
    ]
    if math.isfinite(about.rates_mbit_s[1]):
        lines.append(f"rates_mbit_s = {list(about.rates_mbit_s)!r}")
    if all(map(math.isfinite, model.between_sd)):
        lines.append(f"between_sd = {list(model.between_sd)!r}")
    for table, links in (("links", model.links), ("devices", model.devices)):
        for name, known in links.items():
            lines += ["", f"[{table}.{json.dumps(name)}]", *_rows(known)]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, "\n".join(lines) + "\n")
    except OSError as error:
        raise ConfigError([f"{path}: cannot be written: {error.strerror}"]) from None


def _rows(known: KnownLink) -> list[str]:
    rows = [
        f"alpha_up_mw_per_mbit_s = {known.power.alpha_up_mw_per_mbit_s!r}",
        f"alpha_down_mw_per_mbit_s = {known.power.alpha_down_mw_per_mbit_s!r}",
        f"beta_mw = {known.power.beta_mw!r}",
        f"covariance = {[list(row) for row in known.covariance]!r}",
        f"u_gain = {known.u_gain!r}",
        *([f"meter = {json.dumps(known.meter, ensure_ascii=False)}"] if known.meter else []),
    ]
    return rows if math.isinf(known.dof) else [*rows, f"dof = {known.dof!r}"]


class _Link(Section):
    alpha_up_mw_per_mbit_s: float
    alpha_down_mw_per_mbit_s: float
    beta_mw: float
    covariance: list[list[float]] = Field(default_factory=lambda: [[0.0] * 3] * 3)
    dof: float | None = Field(None, gt=0.0)
    u_gain: float = Field(0.0, ge=0.0)
    meter: str = ""


class _File(Section):
    format: Literal[1]
    name: str = Field(min_length=1)
    links: Annotated[dict[str, _Link], Strict(False)] = Field(min_length=1)
    devices: Annotated[dict[str, _Link], Strict(False)] = Field(default_factory=dict)
    source: str = ""
    date: str = ""
    meter: str = ""
    method: str = ""
    run: str = ""
    rates_mbit_s: Annotated[tuple[float, float] | None, Strict(False)] = None
    between_sd: Annotated[tuple[float, float, float] | None, Strict(False)] = None


def _known(name: str, link: _Link) -> KnownLink:
    power = LinkPower(name, link.alpha_up_mw_per_mbit_s, link.alpha_down_mw_per_mbit_s, link.beta_mw)
    matrix = _matrix(link.covariance)
    assert matrix is not None
    return KnownLink(power, matrix, math.inf if link.dof is None else link.dof, link.u_gain, link.meter)


def _matrix(rows: list[list[float]]) -> Matrix | None:
    if len(rows) != 3 or any(len(row) != 3 for row in rows):
        return None
    a, b, c = ((row[0], row[1], row[2]) for row in rows)
    symmetric = all(math.isclose(rows[i][j], rows[j][i], abs_tol=1e-12) for i in range(3) for j in range(i))
    return (a, b, c) if symmetric and a[0] >= 0.0 and b[1] >= 0.0 and c[2] >= 0.0 else None
