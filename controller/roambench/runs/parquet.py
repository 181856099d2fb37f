"""Writes a table of a run as Parquet, replaced as a whole: a reader sees the old file or the new one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from roambench.contract.whole_file import replaced
from roambench.runs.database import naming


def write_table(path: Path, table: pa.Table | pa.RecordBatchReader) -> Path:
    """A reader's batches are written one by one. RunError where the file cannot be written."""
    with (
        naming(path),
        replaced(path) as draft,
        draft.open("wb") as file,  # Arrow takes only names in UTF-8
        pq.ParquetWriter(file, table.schema, compression="zstd") as writer,
    ):
        for part in [table] if isinstance(table, pa.Table) else table:
            writer.write(part)
    return path
