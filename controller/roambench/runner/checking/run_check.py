"""A run checked: its files against their digests, its model scored again, its joules accounted again from the
raw records, every figure that was written compared."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from roambench.contract.errors import RoambenchError, RunError
from roambench.contract.printable import printable
from roambench.contract.sources import own_code
from roambench.experiment.sections import resolved
from roambench.live.messages import encoded
from roambench.live.saved_page import METRICS, PAGE, SavedPage, page_messages
from roambench.mobility.files import content_hash, read_trace
from roambench.report.run_figures import FIGURES, figures_of_folder, recorded_figures
from roambench.rounds.records import RunEnded, StepClosed
from roambench.runner.checking.findings import (
    CheckFinding,
    CheckOutcome,
    compared,
    differing_rows,
    differing_values,
)
from roambench.runner.checking.model_check import check_model
from roambench.runs.event_log import EventLog
from roambench.runs.export import measured_tables
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.manifest import MANIFEST, differences, read_manifest
from roambench.runs.marks import gaps
from roambench.runs.modelled.export import modelled_results
from roambench.runs.settings import folder_name, named, setting
from roambench.runs.whole_file import read_whole
from roambench.systems.catalogue import SYSTEMS

_FILES: Final = "files"
_WITHOUT: Final = "this run was killed, or an older version made it"
#: A key in the name of a folder.
_KEY: Final = re.compile(r"(?<!\S)([\w.]+)=")
#: What no check can compute again, said below every one of them.
LIMITS: Final = (
    "scores of steps before the last model, and raw records and settings that were changed together with "
    "their digests, can only be checked by repeating the run: roambench run RUN"
)


@dataclass(frozen=True, slots=True)
class RunCheck:
    """The findings on one run. `versions`: by what it was made and is checked, where that is not the same."""

    name: str
    findings: tuple[CheckFinding, ...]
    versions: str = ""


def check_run(path: Path, *, digests: bool = True, download: bool = False) -> RunCheck:
    """Check the run in a folder; RunError for what is no run, and for one that goes on.

    `digests`: compare its files with its manifest. `download`: fetch its data set where that is missing.
    """
    findings: list[CheckFinding] = [_files(path)] if digests else []
    with RunFolder.open(path) as folder:
        if folder.info.state is RunState.RUNNING:
            raise RunError(
                f"{path}: goes on; check it when it has ended: roambench watch {shlex.quote(str(path))}"
            )
        findings.append(_records(folder))
        findings.append(_trace(folder))
        try:
            findings += _name(folder)
            log = folder.read_log()
            findings += _end(folder, log)
            findings += check_model(folder, log, download=download)
            findings += _tables(folder, log)
            findings += _figures(folder)
            findings += _page(folder)
        except RoambenchError as error:  # the run itself could read what it wrote
            findings.append(CheckFinding("figures", CheckOutcome.DIFFERS, tuple(str(error).splitlines())))
        return RunCheck(path.name, tuple(findings), _versions(folder))


def check_figures(what: str, recorded: Any, now: Any) -> CheckFinding:
    """The finding on a report's document: every number in it, and every word that is no sentence."""
    return compared(what, list(differing_values(_without_sentences(recorded), _without_sentences(now))))


def _files(path: Path) -> CheckFinding:
    try:
        manifest = read_manifest(path)
    except RunError as error:
        return CheckFinding(_FILES, CheckOutcome.DIFFERS, (str(error),))
    if manifest is None:
        text = f"no {MANIFEST}: {_WITHOUT}; its figures are computed again"
        return CheckFinding(_FILES, CheckOutcome.NOT_RECORDED, (text,))
    count = len(manifest)
    # A page that was written later is compared with the records.
    wrong = [text for text in differences(path, manifest) if text != f"{PAGE} was added"]
    return compared(_FILES, wrong, f"{count} files have the digests of the run's end")


def _name(folder: RunFolder) -> Iterator[CheckFinding]:
    """The folder's name, by which reports call the run, where it names another system, seed or setting."""
    values = setting(folder.info.system, folder.info.seed, resolved(folder.experiment))
    name = folder.path.name
    first = name.split()[0]
    at = [found for found in _KEY.finditer(name) if _of_key(values, found[1])]
    ends = [*(found.start() for found in at), len(name)][1:]
    wrong = []
    if first in SYSTEMS.names() and first != folder.info.system:
        wrong.append(f"it names {first}, the run is of {folder.info.system}")
    for found, end in zip(at, ends, strict=True):
        word, own = name[found.start() : end].strip(), _of_key(values, found[1])
        texts = [folder_name(text.partition("=")[2]) for text in own]
        if not any(f"{word[len(found[0]) :]} ".startswith(f"{text} ") for text in texts):
            wrong.append(f"it names {word}, the run has {own[0]}")
    if wrong:
        yield CheckFinding("name", CheckOutcome.DIFFERS, tuple(map(printable, wrong)))


def _of_key(values: Mapping[str, Any], key: str) -> list[str]:
    """The run's settings of that key, whole or its last part, as names have them."""
    return [named(values, [name]) for name in values if name == key or name.endswith(f".{key}")]


def _records(folder: RunFolder) -> CheckFinding:
    lacking = folder.losses()
    with suppress(RunError):  # which the losses name
        lacking += gaps(folder.path)
    return compared("records", lacking, "all that the run had stored is there")


def _trace(folder: RunFolder) -> CheckFinding:
    path = folder.path / "trace.parquet"
    if not path.is_file():
        return CheckFinding("trace", CheckOutcome.NOT_RECORDED, (f"{path.name} is not there",))
    try:
        found = content_hash(read_trace(path))
    except RoambenchError as error:
        return CheckFinding("trace", CheckOutcome.DIFFERS, (str(error),))
    text = f"it is {found[:12]}; the run replayed {folder.info.trace_hash[:12]}"
    return compared("trace", [] if found == folder.info.trace_hash else [text])


def _end(folder: RunFolder, log: EventLog) -> Iterator[CheckFinding]:
    """A run that is said to be finished without a last step: that of its trace, or the one it ended after."""
    with suppress(RoambenchError):  # which the trace's own finding names
        steps = read_trace(folder.path / "trace.parquet").steps
        closed = max((record.step for record in log.only(StepClosed)), default=-1) + 1
        if folder.info.state is RunState.FINISHED and closed < steps and not log.count(RunEnded):
            text = f"run.json says finished; the event log has {closed:,} of {steps:,} steps, and no end"
            yield CheckFinding("state", CheckOutcome.DIFFERS, (text,))


def _tables(folder: RunFolder, log: EventLog) -> Iterator[CheckFinding]:
    """Each table that was exported, beside the same from the raw records."""
    made = measured_tables(folder, log)
    modelled = modelled_results(folder, log)
    if modelled is not None:
        made |= modelled[0]
    for name, table in made.items():
        path = folder.path / f"{name}.parquet"
        if not path.is_file():
            ended = folder.info.state is RunState.FINISHED and folder.info.kind.trains
            outcome = CheckOutcome.DIFFERS if ended else CheckOutcome.NOT_RECORDED
            yield CheckFinding(path.name, outcome, ("it is not there",))
            continue
        try:
            recorded = pq.read_table(path)
        except (OSError, ValueError) as error:  # pyarrow's own are both
            yield CheckFinding(
                path.name, CheckOutcome.DIFFERS, (f"not a table: {str(error).splitlines()[0]}",)
            )
            continue
        now = table if isinstance(table, pa.Table) else table.read_all()
        yield compared(path.name, list(differing_rows(recorded, now)))
    if modelled is not None and (folder.path / "summary.json").is_file():
        recorded = read_whole(dict[str, Any], folder.path / "summary.json", finite=False)
        yield compared("summary.json", list(differing_values(recorded, modelled[1])))


def _figures(folder: RunFolder) -> Iterator[CheckFinding]:
    try:
        recorded = recorded_figures(folder.path)
    except RunError as error:
        yield CheckFinding(FIGURES, CheckOutcome.DIFFERS, (str(error),))
        return
    if recorded is None:
        yield CheckFinding(FIGURES, CheckOutcome.NOT_RECORDED, (_WITHOUT,))
        return
    now = figures_of_folder(folder.path)
    pairs = ((recorded.figures, now.figures, ""), (recorded.u, now.u, "u of "))
    wrong = [
        *differing_values(recorded.basis, now.basis, "basis"),
        *(
            f"{before}{text}"
            for left, right, before in pairs
            for text in differing_values(dict(left), dict(right))
        ),
    ]
    yield compared(FIGURES, wrong, f"{len(now.figures)} figures are what the records give")


def _page(folder: RunFolder) -> Iterator[CheckFinding]:
    """The page of a big run that its end wrote, beside the same from the records."""
    page = SavedPage.of(folder.path, folder.info)
    if page is None:
        return
    try:
        now_s = float(page.whole()["now"]["t"])
        wrong = [
            text
            for name, message in page_messages(folder.path, now_s)
            if name != METRICS or page.message(name) is not None  # an earlier version's has none
            for text in differing_values(page.message(name), json.loads(encoded(message)), name)
        ]
    except (RunError, KeyError, TypeError, ValueError) as error:
        yield CheckFinding(PAGE, CheckOutcome.DIFFERS, (f"not what a run's end writes: {error}",))
        return
    yield compared(PAGE, wrong)


def _versions(folder: RunFolder) -> str:
    own, made = own_code(), folder.info.versions
    by = made.get("roambench code", "")
    if by == own.get("code", ""):
        return ""
    return (
        f"made with roambench {made.get('roambench', 'unknown')} (code {by or 'unknown'}), checked with "
        f"{own['version']} (code {own.get('code', 'unknown')}): differences may be the versions'"
    )


def _without_sentences(document: Any) -> Any:
    """The document of a report less its sentences, which name runs and places, and less versions."""
    if isinstance(document, Mapping):
        left_out = ("flags", "routine", "versions", "name", "reference", "instrument")
        return {name: _without_sentences(value) for name, value in document.items() if name not in left_out}
    if isinstance(document, list):
        return [_without_sentences(value) for value in document]
    return document


def report_document(path: Path) -> Any:
    """A report's document that somewhere was written as JSON; RunError for what is none."""
    found = read_whole(dict[str, Any], path, finite=False)
    if not str(found.get("schema", "")).startswith("roambench.report/"):
        raise RunError(f"{path}: expected a report, as roambench report RUN --json prints it")
    return json.loads(json.dumps(found))
