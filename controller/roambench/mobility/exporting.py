"""A trace into files of other formats: the writers say the lines, this puts them on the disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.contract.errors import ConfigError, TraceError
from roambench.contract.whole_file import replaced
from roambench.mobility.files import write_trace
from roambench.mobility.trace import Trace
from roambench.mobility.writers import WRITERS
from roambench.mobility.writers.writer import Absent

FORMATS: Final = (*WRITERS, "parquet")


@dataclass(frozen=True, slots=True)
class Exported:
    """The files written, the asked-for one first, and what they do not say."""

    paths: tuple[Path, ...]
    notes: tuple[str, ...]


def export_trace(trace: Trace, path: Path, form: str, absent: Absent | None = None) -> Exported:
    """Write `trace` to `path` and what belongs beside it (same name, other ending).

    `absent`: whether devices that are away `stand` or are left out (`omit`); None: what the format's own
    programs need. Raises ConfigError for an unknown format or what it cannot do, TraceError where the trace
    or the disk does not allow it; no file is ever half written.
    """
    if form not in FORMATS:
        raise ConfigError([f"--format {form}: expected one of {', '.join(FORMATS)}"])
    if form == "parquet":
        if absent == "stand":
            raise ConfigError(["--absent stand: expected omit: the format keeps who is away"])
        write_trace(trace, path)
        return Exported((path,), ())
    writer = WRITERS[form]
    if absent == "omit" and not writer.omits:
        raise ConfigError([f"--absent omit: expected stand: {form} cannot leave out who is away"])
    if absent == "stand" and form == "csv":
        raise ConfigError(["--absent stand: expected omit: the format keeps who is away"])
    written = writer.write(trace, absent or "stand")
    paths = []
    for suffix, lines in written.lines.items():
        paths.append(path if not suffix else path.with_name(path.stem + suffix))
        _write_lines(lines, paths[-1])
    return Exported(tuple(paths), written.notes)


def _write_lines(lines: Iterable[str], path: Path) -> None:
    try:
        with replaced(path) as fresh, fresh.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise TraceError(f"{path}: cannot write the trace: {error.strerror or error}") from None
