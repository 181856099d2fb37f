"""The table of benchmarks/README.md: before, now, goal, limit.

    python benchmarks/table.py

Takes the figures of `build/bench` into `figures.csv` and makes the table of that file and of `goals.csv`,
between the two markers of the page. A figure that no benchmark renewed stays as it was.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mode

from bench import HERE, KEPT
from setting.figures import GOALS

FIGURES = HERE / "figures.csv"
PAGE = HERE / "README.md"
BEGIN, END = "<!-- made by benchmarks/table.py -->\n", "<!-- end of the table -->\n"
HEADS = ("figure", "before", "now", "goal", "limit", "met")
COLUMNS = ("figure", "values", "limit", "date", "load", "machine")
BUSY = 1.0  # cores, before a benchmark began
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
Row = dict[str, str]


def read(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def renewed(kept: Sequence[Row], folder: Path) -> list[Row]:
    """The rows of `kept`, where `folder` has figures of a later run with those."""
    rows = {row["figure"]: row for row in kept}
    for path in folder.glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            row["values"] = " ".join(f"{value:.4g}" for value in row["values"])
            if row["date"] >= rows.get(row["figure"], row)["date"]:
                rows[row["figure"]] = {column: str(row[column]) for column in COLUMNS}
    return list(rows.values())


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 1 else f"{value:.2g}"


def best_first(row: Row, goal: str) -> list[float]:
    return sorted((float(value) for value in row["values"].split()), reverse=goal.startswith(">="))


def is_met(row: Row, goal: str) -> bool:
    """Whether the best of the repeats reaches `goal`, "<= NUMBER" or ">= NUMBER"."""
    relation, limit = goal.split()
    best = best_first(row, goal)[0]
    return best <= float(limit) if relation == "<=" else best >= float(limit)


def remark(row: Row, usual: Row) -> str:
    """Date and machine, where they differ from the newest run's, and the load, where the machine was busy."""
    other = [row[column] for column in ("date", "machine") if row[column] != usual[column]]
    busy = [f"{row['load']} cores were busy before"] if float(row["load"]) > BUSY else []
    return ", ".join(other + busy)


def made(goals: Sequence[Row], figures: Sequence[Row]) -> str:
    """The table with what stands around it: ratios first, else in the order of `goals`."""
    known = {row["figure"]: row for row in figures}
    date = max(row["date"] for row in figures)
    usual = {"date": date, "machine": mode(row["machine"] for row in figures if row["date"] == date)}
    remarks: list[str] = []
    lines, met, missed = [list(HEADS)], 0, 0
    for goal in sorted(goals, key=lambda goal: goal["unit"] != "x"):
        name = goal["figure"] if goal["unit"] == "x" else f"{goal['figure']}, {goal['unit']}"
        relation, limit = goal["goal"].split()
        asked = ("≤ " if relation == "<=" else "≥ ") + number(float(limit))
        row = known.get(goal["figure"])
        if row is None:
            lines.append([name, goal["before"], "not run", asked, "", ""])
            continue
        values = best_first(row, goal["goal"])
        now = "–".join(dict.fromkeys((number(values[0]), number(values[-1]))))
        if told := remark(row, usual):
            remarks += [told] if told not in remarks else []
            now += str(remarks.index(told) + 1).translate(RAISED)
        reached = is_met(row, goal["goal"])
        met, missed = met + reached, missed + (not reached)
        lines.append([name, goal["before"], now, asked, row["limit"], "yes" if reached else "no"])
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS))]
    lines.insert(1, ["-" * width for width in widths])
    rows = ["|" + "|".join(map(str.ljust, line, widths)) + "|" for line in lines]
    head = [
        f"{met} of {len(goals)} goals are met, {missed} missed, {len(goals) - met - missed} not run.",
        f"Newest figures: {date}, {usual['machine']}.",
    ]
    notes = [f"{place}. {told}" for place, told in enumerate(remarks, 1)]
    return "\n".join([*head, "", *rows, *([""] if notes else []), *notes]) + "\n"


def page(text: str, table: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"


def main() -> None:
    goals = read(GOALS)
    order = [goal["figure"] for goal in goals]
    figures = [row for row in renewed(read(FIGURES), KEPT) if row["figure"] in order]
    figures.sort(key=lambda row: order.index(row["figure"]))
    with FIGURES.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(figures)
    table = made(goals, figures)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), table), encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
