"""Tables as Markdown, for pages that live beside the code."""

from __future__ import annotations

from roambench.report.table import ReportTable


def markdown_table(table: ReportTable) -> str:
    """A heading, the table, its caption below."""
    rule = ["---:" if table.is_numeric(column) else "---" for column in range(len(table.head))]
    lines = [_line([cell(text) for text in table.head]), _line(rule)]
    lines += [_line([cell(text) for text in row]) for row in table.rows]
    below = ["", table.caption] if table.caption else []
    return "\n".join([f"## {table.title}", "", *lines, *below, ""])


def cell(text: str) -> str:
    """Text that neither ends its cell nor is read as markup."""
    for sign in "\\|*_`<[":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
