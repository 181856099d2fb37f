"""The report for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from roambench.report.summaries.run import RunSummary, comparison_flags
from roambench.report.table import Table
from roambench.report.tables.report import board_tables, comparison_tables, detail_tables

#: More rows than this are for the page.
_MOST_ROWS = 40


def print_report(runs: Sequence[RunSummary], console: Console) -> None:
    """All comparison tables, then what went wrong; names from the network are never read as markup."""
    for table in comparison_tables(runs):
        print_table(table, console)
    for table in (*board_tables(runs), *detail_tables(runs)):
        print_table(table, console)
    for run in runs:
        if run.instrument is not None:
            console.print(f"{escape(run.label)}: {escape(run.instrument.sentence)}", highlight=False)
        for flag in run.flags:
            console.print(f"[yellow]![/] {escape(run.label)}: {escape(flag)}", highlight=False)
    for flag in comparison_flags(runs):
        console.print(f"[yellow]![/] {escape(flag)}", highlight=False)


def print_table(table: Table, console: Console) -> None:
    """Print a table on the terminal."""
    drawn = RichTable(title=Text(table.title, style="bold"), title_justify="left", box=None, pad_edge=False)
    for number, name in enumerate(table.head):
        drawn.add_column(Text(name), justify="right" if table.is_numeric(number) else "left", overflow="fold")
    for row in table.rows[:_MOST_ROWS]:
        drawn.add_row(*(Text(cell) for cell in row))
    console.print(drawn)
    if len(table.rows) > _MOST_ROWS:
        console.print(f"  and {len(table.rows) - _MOST_ROWS} more rows in the HTML report", highlight=False)
    console.print()
