"""Tables of benches on a terminal that they do not fit."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from roambench.cli.fleet.outcome_table import add_columns, print_rows

HEAD = ("host", "agent", "clock", "throttled", "disk", "meter", "what to do")
ADVICE = "fleet ctl spool, then drop what is sent; its clock is wrong: systemctl status chrony"
ROWS = [
    ("pi-01", "0.2.0 1a2b3c4d in a run", "+3 ± 12 ms", "no", "11.2 GB free", "ok 2.31 W, 0.4 s old", ""),
    (
        "pi-02",
        "none",
        "-1,204 ± 9 ms",
        "under-voltage",
        "0.3 GB free",
        "stale",
        f"its card is nearly full: {ADVICE}",
    ),
]


def printed(width: int, *, terminal: bool) -> str:
    table = Table(title="lab: free", title_justify="left")
    add_columns(table, *HEAD)
    for row in ROWS:
        table.add_row(*row)
    file = io.StringIO()
    print_rows(table, Console(file=file, width=width, force_terminal=terminal, color_system=None))
    return file.getvalue().replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_short_cell_is_broken_and_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = printed(width, terminal=True)
    assert max(map(len, text.splitlines())) <= width
    for row in ROWS:
        for cell in row[:-1]:
            assert cell in text
    assert all(word in text for word in ROWS[1][-1].split())


def test_a_table_that_fits_and_one_in_a_pipe_have_their_lines_around_them() -> None:
    assert "│ pi-01" in printed(300, terminal=True)
    assert "│ pi-01" in printed(100_000, terminal=False)
