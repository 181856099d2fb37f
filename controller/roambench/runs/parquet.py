"""Writes a table of a run as Parquet, replaced as a whole: a reader sees the old file or the new one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from roambench.runs.database import naming


def write_table(path: Path, table: pa.Table) -> Path:
    """RunError where the file cannot be written."""
    beside = path.with_name(path.name + ".new")
    with naming(path):
        pq.write_table(table, beside, compression="zstd")
        beside.replace(path)
    return path
