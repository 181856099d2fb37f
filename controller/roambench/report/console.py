"""The report for a terminal: what matters on one screen, or all of it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from roambench.contract.counts import count
from roambench.report.half_runs import HalfRun
from roambench.report.settings import Settings
from roambench.report.summaries.finding import finding_of
from roambench.report.summaries.report_flags import SaidBy, report_flags, sentence_of
from roambench.report.summaries.run import RunSummary
from roambench.report.table import ReportTable
from roambench.report.tables.brief import brief_table
from roambench.report.tables.half_runs import half_run_table
from roambench.report.tables.report import board_tables, comparison_tables, detail_tables
from roambench.report.tables.settings import settings_table
from roambench.report.tables.trust import trust_table

#: More rows than this are for the page.
_MOST_ROWS: Final = 40
#: What one screen takes.
_MOST_NOTES: Final = 3
_MOST_RUNS: Final = 6
_GAP: Final = 2  # cells between columns
_HARD: Final = "\N{NO-BREAK SPACE}"


def print_brief(runs: Sequence[RunSummary], console: Console, *, table: bool = True) -> None:
    """One screen: the finding, a line per run (the `table`), the gravest notes, but no routine ones."""
    console.print(Text(finding_of(runs), style="bold"), soft_wrap=not console.is_terminal)
    if table:
        console.print()
        print_table(brief_table(runs[:_MOST_RUNS]), console)
        trust = trust_table(runs[:_MOST_RUNS])
        if trust is not None:
            print_table(replace(trust, title=""), console, caption=True)
        if len(runs) > _MOST_RUNS:
            console.print(f"  and {len(runs) - _MOST_RUNS} more runs", highlight=False)
    notes = [said for said in report_flags(runs) if not said[1].routine]
    for said in notes[:_MOST_NOTES]:
        _print_note(said, console)
    if len(notes) > _MOST_NOTES:
        rest = count(len(notes) - _MOST_NOTES, "more note")
        console.print(f"  and {rest} in the report", highlight=False)


def print_settings(found: Settings, console: Console, *, table: bool = True) -> None:
    """One screen: the best settings and how sure that is, a line per setting (the `table`), and notes."""
    for best in found.best:
        console.print(Text(best.sentence, style="bold"), soft_wrap=not console.is_terminal)
    if table:
        console.print()
        print_table(settings_table(found), console, caption=True)
    for note in found.notes:
        console.print(Text.assemble(("! ", "yellow"), note), soft_wrap=not console.is_terminal)


def print_half_runs(halves: Sequence[HalfRun], console: Console) -> None:
    """Print the figures that the ends of these runs wrote, and why there are no others."""
    for half in halves:
        console.print(Text.assemble(("! ", "yellow"), half.sentence), soft_wrap=not console.is_terminal)
    table = half_run_table(halves)
    if table is not None:
        print_table(table, console, caption=True)


def print_report(runs: Sequence[RunSummary], console: Console) -> None:
    """All comparison tables, then what went wrong; names from the network are never read as markup."""
    console.print(Text(finding_of(runs), style="bold"), soft_wrap=not console.is_terminal)
    console.print()
    for table in comparison_tables(runs):
        print_table(table, console)
    for table in (*board_tables(runs), *detail_tables(runs)):
        print_table(table, console)
    for run in runs:
        if run.instrument is not None:
            console.print(Text(f"{run.label}: {run.instrument.sentence}"))
    for said in report_flags(runs):
        _print_note(said, console)


def _print_note(said: SaidBy, console: Console) -> None:
    """A whole sentence; in a pipe it is one line."""
    mark = ("- ", "dim") if said[1].routine else ("! ", "yellow")
    console.print(Text.assemble(mark, sentence_of(said)), soft_wrap=not console.is_terminal)


def print_table(
    table: ReportTable,
    console: Console,
    *,
    most_rows: int | None = _MOST_ROWS,
    caption: bool = False,
    whole: Container[int] = (),
) -> None:
    """Print a table (`most_rows` of it, None: all), with its caption if asked; names, numbers and cells of
    columns in `whole` are never broken. Where it is wider than the terminal the columns that do not fit come
    below, behind what names the row again (its keys, or its number where they leave no room for a figure);
    in a pipe it is as wide as it has to be."""
    rows = table.rows[:most_rows]
    if table.title:
        console.print(Text(table.title, style="bold"), soft_wrap=not console.is_terminal)
    if console.is_terminal:
        _draw(table, rows, console, whole)
    else:
        for line in _plain(table, rows):
            console.print(Text(line), soft_wrap=True)
    if len(table.rows) > len(rows):
        console.print(f"  and {len(table.rows) - len(rows)} more rows in the HTML report", highlight=False)
    if caption and table.caption:
        console.print(Text(table.caption), soft_wrap=not console.is_terminal)
    console.print()


def _plain(table: ReportTable, rows: Sequence[tuple[str, ...]]) -> Iterable[str]:
    """Lines as wide as they have to be."""
    shown = [table.head, *rows] if any(table.head) else list(rows)
    widths = [max(map(cell_len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = []
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - cell_len(cell))
            cells.append(space + cell if table.is_numeric(column) else cell + space)
        yield (" " * _GAP).join(cells).rstrip()


def _draw(
    table: ReportTable, rows: Sequence[tuple[str, ...]], console: Console, whole: Container[int]
) -> None:
    """On a terminal: the columns that do not fit come below, behind what names the row again."""
    count_of = len(table.head)
    kept = {at for at in range(count_of) if at == 0 or at in whole or table.is_numeric(at)}
    widths = [
        max(
            _longest_word(name),
            *((cell_len if number in kept else _longest_word)(row[number]) for row in rows),
            0,
        )
        for number, name in enumerate(table.head)
    ]
    keys = table.numeric_from if 1 < table.numeric_from < count_of else 1
    is_split = sum(widths) + _GAP * (count_of - 1) > console.width
    room = console.width - sum(widths[:keys]) - _GAP * keys
    if is_split and (
        (keys > 1 and max(widths[keys:]) > room) or len({row[:keys] for row in rows}) < len(rows)
    ):
        numbered = replace(
            table,
            head=("#" if any(table.head) else "", *table.head),
            numeric_from=table.numeric_from + 1,
            text_from=table.text_from + 1,
        )
        names = [(str(number), *row) for number, row in enumerate(rows, start=1)]
        _draw_columns(
            numbered, names, console, [len(str(len(rows))), *widths], 1, {0, *(at + 1 for at in kept)}
        )
    else:
        _draw_columns(table, rows, console, widths, keys, kept)


def _draw_columns(
    table: ReportTable,
    rows: Sequence[tuple[str, ...]],
    console: Console,
    widths: Sequence[int],
    keys: int,
    kept: Container[int],
) -> None:
    """`widths`: the least of each column. `keys`: the columns that name a row. Cells in `kept` are whole."""
    for columns in _fitting(widths, keys, console.width):
        headed = any(table.head[column] for column in columns)
        drawn = Table(box=None, pad_edge=False, show_header=headed)
        tight = _natural_width(table, rows, columns) > console.width
        for column in columns:
            drawn.add_column(
                Text(table.head[column]),
                justify="right" if table.is_numeric(column) else "left",
                overflow="fold",
                width=widths[column] if tight and column in kept else None,
            )
        for row in rows:
            drawn.add_row(
                *(Text(_hard(row[column]) if column in kept else row[column]) for column in columns)
            )
        console.print(drawn, crop=False)


def _natural_width(table: ReportTable, rows: Sequence[tuple[str, ...]], columns: Sequence[int]) -> int:
    return sum(max(cell_len(row[one]) for row in (table.head, *rows)) + _GAP for one in columns) - _GAP


def _hard(cell: str) -> str:
    return cell.replace(" ", _HARD)


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


def _fitting(widths: Sequence[int], keys: int, most: int) -> Iterable[list[int]]:
    """Columns that fit beside those that name a row, again and again until all are there."""
    groups = [list(range(keys))]
    for column in range(keys, len(widths)):
        wide = sum(widths[one] + _GAP for one in groups[-1]) + widths[column]
        if wide > most and len(groups[-1]) > keys:
            groups.append(list(range(keys)))
        groups[-1].append(column)
    return groups
