"""The figures that a benchmark reached, for the table of benchmarks/README.md."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Final

GOALS: Final = Path(__file__).parents[1] / "goals.csv"
#: The environment variable in which `bench.py` names the file of a benchmark's figures.
FILE: Final = "ROAMBENCH_FIGURES"


def keep(figure: str, *values: float, limit: str = "") -> None:
    """Keep what the repeats reached, in the unit that goals.csv has for `figure`.

    `limit` is what the same run measured of a rival or a floor, a few characters of text. A benchmark that
    `bench.py` has not started keeps nothing.
    """
    with GOALS.open(newline="", encoding="utf-8") as file:
        if figure not in {row["figure"] for row in csv.DictReader(file)}:
            raise SystemExit(f"{GOALS}: no line of the figure {figure!r}")
    if path := os.environ.get(FILE):
        with Path(path).open("a", encoding="utf-8") as file:
            row = {"figure": figure, "values": [float(value) for value in values], "limit": limit}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
