"""A campaign on three hosts and a spare, with a fault every few minutes, that nobody looks after.

`python benchmarks/soak.py --campaign --seed N` is the same with a table of what followed from each fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from soaking.campaign import DIES, CampaignSoak, hosts_with_a_spare, judged


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
def test_a_campaign_under_faults_ends_complete_and_as_one_that_nobody_disturbed(tmp_path: Path) -> None:
    with hosts_with_a_spare() as hosts:
        soak = CampaignSoak(hosts, tmp_path, seed=1)
        verdict = judged(soak, soak.carry_out(patience_s=2.5 * 3600.0))
    assert verdict.problems == ()
    assert verdict.figures["runs"] == 24
    kinds = {one.fault.kind for one in soak.struck}
    assert DIES in kinds
    assert len(kinds) >= 8
    # And the judge can say "broken": one line less in the log, one figure more in the table.
    log, table = soak.out / "campaign.jsonl", soak.out / "table.csv"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(line for line in lines if '"replaced"' not in line))
    table.write_text(table.read_text().replace("mohawk", "mohawc"))
    problems = judged(soak, 0).problems
    assert any("the log tells of no spare" in problem for problem in problems)
    assert any("rows of the table are" in problem for problem in problems)
