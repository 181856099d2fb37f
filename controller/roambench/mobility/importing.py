"""Recorded movement into a trace: open the files, read them, cook them by the recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from roambench.mobility.readers import READERS
from roambench.mobility.readers.fixes import MalformedRow
from roambench.mobility.readers.opening import SourceOptions, read_files
from roambench.mobility.recipe import Recipe, build_trace
from roambench.mobility.trace import Trace


@dataclass(frozen=True, eq=False)
class Imported:
    """A trace and what to tell the user about the reading: the first malformed rows (all are counted)."""

    trace: Trace
    rows: int
    malformed: int
    malformed_rows: tuple[MalformedRow, ...]


def import_trace(
    reader: str, paths: Sequence[Path], recipe: Recipe, options: SourceOptions | None = None
) -> Imported:
    """Read `paths` with the reader of that name and make the trace of `recipe`.

    Raises ConfigError for an unknown reader or option, TraceError for files that cannot be used.
    """
    fixes, sources = read_files(READERS.load(reader), paths, options)
    trace = build_trace(fixes, recipe, [asdict(source) for source in sources])
    trace = replace(trace, provenance={**trace.provenance, "reader": reader})
    return Imported(trace, fixes.rows, fixes.malformed, fixes.malformed_rows)


def import_checkins(paths: Sequence[Path], recipe: Recipe, options: SourceOptions | None = None) -> Imported:
    """`import_trace` with the `checkins` reader."""
    return import_trace("checkins", paths, recipe, options)
