"""Several runs checked, those of a crate among them, with the report of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from roambench.contract.errors import RunError
from roambench.contract.printable import printable
from roambench.report.report import Report
from roambench.report.report import report as report_of
from roambench.runner.checking.findings import CheckFinding, CheckOutcome, compared
from roambench.runner.checking.page_check import check_page, order_in
from roambench.runner.checking.run_check import RunCheck, check_figures, check_run, report_document
from roambench.runs.crates import crate_of, source_of
from roambench.runs.groups import REPORT, is_run
from roambench.runs.manifest import MANIFEST, differences, read_manifest


def check_runs(runs: Sequence[Path], *, report: Path | None = None, download: bool = False) -> list[RunCheck]:
    """Check each of the runs, and the crates that they are of; RunError for what is no run.

    `report`: a report of all of them, a document of JSON or a page.
    """
    crates = {
        crate: [run for run in runs if crate_of(run) == crate] for crate in map(crate_of, runs) if crate
    }
    found = [
        RunCheck(source_of(crate).name, tuple(_crate(crate, of_crate))) for crate, of_crate in crates.items()
    ]
    found += [_checked(run, download, alone=len(runs) == 1) for run in runs]
    if report is not None:
        found.append(RunCheck(report.name, (_report(report, report_of(runs)),)))
    return found


def _checked(run: Path, download: bool, *, alone: bool) -> RunCheck:
    """The check of a run; of several, one that cannot be opened holds up no other."""
    try:
        return check_run(run, digests=crate_of(run) is None, download=download)
    except RunError as error:
        if alone or not is_run(run):
            raise
        return RunCheck(run.name, (CheckFinding("run", CheckOutcome.NOT_CHECKED, (str(error),)),))


def status_of(checks: Sequence[RunCheck]) -> int:
    """0 where all is equal, 1 where something differs, else 2 where something could not be checked."""
    outcomes = {finding.outcome for made in checks for finding in made.findings}
    return 1 if CheckOutcome.DIFFERS in outcomes else 2 if CheckOutcome.NOT_CHECKED in outcomes else 0


def _crate(crate: Path, runs: Sequence[Path]) -> list[CheckFinding]:
    manifest = read_manifest(crate)
    if manifest is None:
        found = [
            CheckFinding(
                "files", CheckOutcome.NOT_RECORDED, (f"no {MANIFEST}: an older version made this crate",)
            )
        ]
    else:
        text = f"{len(manifest)} files have the digests that the crate was packed with"
        found = [compared("files", differences(crate, manifest), text)]
    every = sorted(path.parent for path in (crate / "runs").glob("*/run.json"))
    written = [crate / name for name in ("report.json", REPORT) if (crate / name).is_file()]
    if written and sorted(runs) == every:
        made = report_of(runs)
        found += [_report(path, made) for path in written]
    return found


def _report(path: Path, made: Report) -> CheckFinding:
    """The finding on a report, which has the runs in an order that it chose."""
    if path.suffix == ".html":
        return check_page(
            path, _ordered(made, order_in(path, [run.label for run in made.summaries])), path.parent
        )
    recorded = report_document(path)
    listed: list[Any] = recorded.get("runs", [])
    ids = [str(run.get("run_id", "")) for run in listed if isinstance(run, dict)]
    ours = [summary.info.run_id for summary in made.summaries]
    if sorted(ids) != sorted(ours):
        text = f"it is of {', '.join(map(printable, ids)) or 'no run'}; these are {', '.join(ours)}"
        return CheckFinding(path.name, CheckOutcome.DIFFERS, (text,))
    if len(set(ours)) == len(ours):
        made = _ordered(made, [ours.index(each) for each in ids])
    now = json.loads(made.json())
    if "settings" not in recorded:  # an older version's
        now.pop("settings", None)
    return check_figures(path.name, recorded, now)


def _ordered(made: Report, order: Sequence[int]) -> Report:
    """The report with its runs in this order."""
    return replace(
        made,
        evidence=tuple(made.evidence[at] for at in order),
        summaries=tuple(made.summaries[at] for at in order),
    )
