"""± has one meaning in a table, and the caption says which."""

from __future__ import annotations

import re

from roambench.report.report import report
from roambench.report.tables.report import board_tables, comparison_tables

MEANING = re.compile(r"± is 2 u|± k = 2|± its bound")


def test_a_table_with_plus_minus_says_once_what_it_is(hand_made) -> None:
    measured = [hand_made(lead_s=30), hand_made("demo-hierfavg", system="hierfavg", aggregated=(), lead_s=30)]
    virtual = [hand_made("virtual", fleet="simulated", readings=False, phases=False)]
    seen = set()
    for paths in (measured, virtual):
        runs = report(paths).summaries
        for table in (*comparison_tables(runs), *board_tables(runs)):
            if any("±" in cell for row in table.rows for cell in row):
                assert len(MEANING.findall(table.caption)) == 1, (table.key, table.caption)
                seen.add(table.key.partition("-demo")[0])
    assert {"trust", "table10-gross", "whole-run", "phases", "boards", "baselines"} <= seen
