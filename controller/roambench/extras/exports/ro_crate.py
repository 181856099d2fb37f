"""Runs as an RO-Crate (https://w3id.org/ro/crate/1.1), a folder that describes itself: for archives.

In it are the report, tables, settings, and all that `roambench check` computes them from again: raw records,
event log, trace, truth, the last model, digests of all files. No key or log of a bench and no description of
its hosts.
"""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatch
from importlib.metadata import metadata
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from roambench.contract.errors import ConfigError, RunError
from roambench.contract.json_values import without_nan
from roambench.report.report import Report, report
from roambench.report.summaries.finding import finding_of
from roambench.report.tracked import PUBLIC_FILES, TrackedRun, missing, named_twice, tracked_runs
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.database import copy_database
from roambench.runs.manifest import is_index, write_manifest
from roambench.runs.marks import EVENTS, RECORDS, losses
from roambench.runs.reference import FILES
from roambench.runs.settings import folder_name

_PARQUET: Final = "application/vnd.apache.parquet"
_PROFILE: Final = "https://w3id.org/ro/wfrun/process/0.5"
_TYPES: Final = {
    ".parquet": _PARQUET,
    ".json": "application/json",
    ".html": "text/html",
    ".csv": "text/csv",
    ".sqlite": "application/vnd.sqlite3",
    ".safetensors": "application/octet-stream",
}
#: What a check needs besides the public files and the databases.
_TO_CHECK: Final = (
    "trace.parquet",
    "host.parquet",
    "exchanges.parquet",
    "figures.json",
    "emulator.json",
    GLOBAL_MODEL,
)
_README: Final = """\
# Runs of roambench {version}

{runs}

`report.html` is the report, `report.json` its numbers. Each run is a whole run folder: event log
(`events.sqlite`), raw records of its boards and meters (`records.sqlite`), the movement that was replayed
(`trace.parquet`), the true energy of emulated boards (`truth`), the last model (`models`), and the tables
made of them.

{missing}## How to check it

| command, in this folder | what it shows |
|---|---|
| `sha256sum -c manifest.sha256` | every file is as it was packed |
| `roambench check .` | the same; and all below |
| `roambench report .` | the report, made from the records again |
| `roambench run {first}` | repeats the run: on the same kind of fleet its models have the same digest |

`roambench check` scores the last model again, computes joules again from the raw records, and compares every
figure of `report.json`, `report.html` and the tables.

It ends with 0 where all is equal, 1 where something differs, which it names, and 2 where
something could not be checked, as without the data set. It takes the zip file, too. Scores of
steps before the last model can be checked only by repeating the run.
"""


@dataclass(frozen=True, slots=True)
class About:
    """Facts of a crate that only its makers know. `license` is an SPDX identifier or an address."""

    license: str
    title: str = ""
    authors: tuple[str, ...] = ()


def export_ro_crate(
    runs: Sequence[Path], out: Path, about: About, say: Callable[[str], None] | None = None
) -> Path:
    """Write the runs with their report as a crate: a folder, or a zip where `out` ends so; returns `out`.

    What a run has lost is named in the crate's README, and handed to `say`. ConfigError for an
    `out` that is there already or runs of one name; RunError for what is no run, where the library is not
    installed or the disk refuses.
    """
    if out.exists() or out.is_symlink():
        raise ConfigError([f"-o: {out}: exists already; name a new folder or .zip file"])
    crate_of = _library()
    found = tracked_runs(runs)
    if twice := named_twice([_place(run) for run in found]):
        raise ConfigError(twice)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
            crate = crate_of(version="1.1")
            runs_of_crate = [Path(scratch, _place(run)) for run in found]
            missing_parts = [
                f"`{_place(run)}`: {text}"
                for run, folder in zip(found, runs_of_crate, strict=True)
                for text in _copied(run, folder)
            ]
            if say is not None:
                for part in missing_parts:
                    say(f"missing in {part}")
            whole_report = report(runs_of_crate)
            _describe(crate, found, finding_of(whole_report.summaries), about)
            _fill(crate, found, whole_report, Path(scratch), missing_parts)
            whole = Path(scratch, "whole")
            crate.write(whole)
            write_manifest(whole)
            if out.suffix == ".zip":
                whole = Path(shutil.make_archive(str(whole), "zip", whole))
            whole.rename(out)
    except OSError as error:
        raise RunError(f"{out}: {error.strerror or error}") from None
    return out


def _place(run: TrackedRun) -> str:
    return f"runs/{folder_name(run.name)}"


def citation() -> str:
    """The package as a CITATION.cff of its version."""
    software = metadata("roambench")
    lines = [
        "cff-version: 1.2.0",
        "message: These runs were made with roambench; please cite it as below.",
        f"title: {json.dumps('roambench: ' + software['Summary'][0].lower() + software['Summary'][1:])}",
        "type: software",
        f"authors:\n  - name: {software['Author']}",
        f"version: {software['Version']}",
        f"license: {software['License-Expression']}",
    ]
    return "\n".join(lines) + "\n"


def _describe(crate: Any, runs: Sequence[TrackedRun], finding: str, about: About) -> None:
    software = metadata("roambench")
    systems = ", ".join(dict.fromkeys(run.info.system for run in runs))
    root = crate.root_dataset
    crate.name = about.title or f"Runs of {systems} on roambench"
    crate.description = finding
    crate.license = _license(crate, about.license)
    root["keywords"] = "federated learning, energy measurement, mobility"
    profile = {"@id": _PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    root["conformsTo"] = crate.add_jsonld(profile)
    if about.authors:
        root["author"] = _one_or_all(
            [
                crate.add_jsonld({"@id": f"#author-{at}", "@type": "Person", "name": name})
                for at, name in enumerate(about.authors, 1)
            ]
        )
    crate.add_jsonld(
        {
            "@id": "#roambench",
            "@type": "SoftwareApplication",
            "name": "roambench",
            "softwareVersion": software["Version"],
            "description": software["Summary"],
            "license": _license(crate, software["License-Expression"]),
        }
    )
    actions = []
    for at, run in enumerate(runs, 1):
        action: dict[str, Any] = {
            "@id": f"#run-{at}",
            "@type": "CreateAction",
            "name": f"Run {run.name}",
            "description": run.finding,
            "instrument": {"@id": "#roambench"},
            "startTime": run.info.created_utc,
            "object": {"@id": quote(f"{_place(run)}/settings.json")},
            "result": {"@id": quote(f"{_place(run)}/")},
        }
        if run.ended_s is not None:
            action["endTime"] = datetime.fromtimestamp(run.ended_s, UTC).isoformat(timespec="seconds")
        actions.append(crate.add_jsonld(action))
    root["mentions"] = _one_or_all(actions)


def _license(crate: Any, name: str) -> Any:
    """The entity of a licence, made once; ConfigError for what is no identifier of SPDX and no address."""
    if ":" in name:
        address = name
    else:
        try:
            name = canonicalize_license_expression(name)
        except InvalidLicenseExpression:
            name = ""
        if not name or " " in name:
            raise ConfigError(["--license: expected one SPDX identifier (CC-BY-4.0, CC0-1.0) or an address"])
        address = f"https://spdx.org/licenses/{name}"
    described = {"@id": address, "@type": "CreativeWork", "name": name, "url": address}
    return crate.get(address) or crate.add_jsonld(described)


def _one_or_all(found: list[Any]) -> Any:
    """A single value stands in no list, as RO-Crate recommends."""
    return found[0] if len(found) == 1 else found


def _fill(
    crate: Any,
    runs: Sequence[TrackedRun],
    whole_report: Report,
    scratch: Path,
    missing_parts: Sequence[str],
) -> None:
    texts = {
        "README.md": (
            _readme(runs, missing_parts),
            "What is in this crate and how to check it",
            "text/markdown",
        ),
        "report.html": (whole_report.html(), "The report: figures and tables", ""),
        "report.json": (whole_report.json(), "The report's numbers, with their uncertainties", ""),
        "CITATION.cff": (citation(), "How to cite the software", "text/yaml"),
    }
    for name, (text, meaning, media_type) in texts.items():
        (scratch / name).write_text(  # notes name runs
            text.replace(f"{scratch}/", ""), encoding="utf-8", errors="backslashreplace"
        )
        _file(crate, scratch / name, name, meaning, media_type)
    for run in runs:
        folder, below = scratch / _place(run), _place(run)
        parts = []
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and not is_index(path)):
            name = path.relative_to(folder).as_posix()
            parts.append(_file(crate, path, f"{below}/{name}", _meaning(name)))
        described = {
            "name": run.name,
            "description": run.finding,
            "hasPart": _one_or_all([{"@id": it.id} for it in parts]),
        }
        crate.add_dataset(dest_path=f"{below}/", properties=described)


def _copied(run: TrackedRun, folder: Path) -> list[str]:
    """Copy the run as `roambench check` opens it; what is its bench's alone, and the place of its inputs on
    this machine, is left out. Returns what it lacks, a phrase each."""
    for part in ("models", "truth"):
        (folder / part).mkdir(parents=True)
    names = _short_names(run.info.inputs)
    inputs = {names[path]: digest for path, digest in run.info.inputs.items()}
    texts = {
        "settings.json": {"settings": run.settings, "tags": run.tags},
        "experiment.json": run.settings,
        "run.json": json.loads(replace(run.info, inputs=inputs).to_json()),
    }
    for name, document in texts.items():
        text = json.dumps(without_nan(document), indent=2, ensure_ascii=False, default=str)
        (folder / name).write_text(text, encoding="utf-8")
    source = run.evidence.path
    problems = list(losses(source, run.info.marks))
    for name in (EVENTS, RECORDS):
        try:
            copy_database(source / name, folder / name)
        except RunError as error:
            (folder / name).unlink(missing_ok=True)
            problems += (
                [str(error).replace(f"{source}/", "")] if not any(name in it for it in problems) else []
            )
    truths = [f"truth/{path.name}" for path in (source / "truth").glob("*.csv")]
    for name in (*PUBLIC_FILES, *_TO_CHECK, *truths):
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    return problems


def _short_names(paths: Iterable[str]) -> dict[str, str]:
    """The last parts of each path, as few as tell it from the others."""
    names, depth, left = dict[str, str](), 0, {path: Path(path).parts for path in paths}
    while left:
        depth += 1
        ends = {path: "/".join(parts[-depth:]) for path, parts in left.items()}
        times = Counter(ends.values())
        names |= {path: end for path, end in ends.items() if times[end] == 1 or depth >= len(left[path])}
        left = {path: parts for path, parts in left.items() if path not in names}
    return names


def _meaning(name: str) -> str:
    if name == "settings.json":
        return "Every setting, defaults filled in; who made the run, and what to doubt"
    known = next(text for pattern, text in FILES.items() if fnmatch(name, pattern))
    return known.partition(": [")[0]


def _readme(runs: Sequence[TrackedRun], missing_parts: Sequence[str]) -> str:
    software = metadata("roambench")
    listed = "\n".join(f"- `{_place(run)}`: {run.finding}" for run in runs)
    missing = "\n".join(["## What is missing", "", *(f"- {part}" for part in missing_parts), "", ""])
    return _README.format(
        version=software["Version"],
        runs=listed,
        missing=missing if missing_parts else "",
        first=shlex.quote(_place(runs[0])),
    )


def _file(crate: Any, source: Path, place: str, meaning: str, media_type: str = "") -> Any:
    about = {
        "name": Path(place).name,
        "description": meaning,
        "encodingFormat": media_type or _TYPES[source.suffix],
        "contentSize": str(source.stat().st_size),
    }
    return crate.add_file(source, dest_path=place, properties=about)


def _library() -> Any:
    try:
        from rocrate.rocrate import ROCrate
    except ModuleNotFoundError as error:
        raise missing(error, "rocrate", "ro-crate") from None
    return ROCrate
