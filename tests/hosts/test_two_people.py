"""Two people with a bench file each, and so a state folder each, on the same boards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hosts.card_walk import ROOT
from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.bench_run import ALWAYS_THERE, BenchRun
from hosts.lab.cli import Said, roambench
from roambench.contract.events import EventKind
from roambench.provision.inventory.load import load_bench

_TAKEN = "pi2: bench ben of ben@"


@pytest.fixture
def bens(provisioned: BenchHosts, tmp_path: Path) -> Iterator[Path]:
    """Ben's description of the same boards; in the end they are all the first person's again."""
    bench = tmp_path / "ben" / "bench.toml"
    bench.parent.mkdir()
    number = provisioned.folder.name
    bench.write_text(provisioned.bench.read_text().replace(f'name = "lab{number}"', 'name = "ben"'))
    yield bench
    said = roambench("fleet", "provision", provisioned.bench, "--take", timeout_s=580)
    assert said.code == 0, said


def by_ben(*words: object, **environment: str) -> Said:
    """What another account's command says."""
    return roambench(*words, cwd=ROOT, LOGNAME="ben", **environment)


def strangers(bench: Path) -> dict[str, str]:
    """What `bench` is told of boards that another has: by name, the board's sentence without its time."""
    rows = json.loads(roambench("fleet", "status", bench, "--json").out)
    told = {row["host"]: row["next_action"].partition(",")[0] for row in rows}
    return {name: words for name, words in told.items() if words.startswith("it belongs to ")}


def test_boards_that_one_bench_has_are_refused_to_another_bench_whatever_it_wants_of_them(
    provisioned: BenchHosts, bens: Path
):
    """All at once, while the first person's own command goes on."""
    lines = (
        *(("provision",), ("upgrade",), ("reboot",), ("power", "cycle"), ("rollback",)),
        ("unprovision", "--yes"),
    )
    run = ("run", "experiments/demo_full.toml", "--fleet", f"bench:{bens}", "--no-preflight", "--unproven")
    boots = {name: provisioned.state()[name]["init"] for name in provisioned.names}
    with ThreadPoolExecutor() as pool:
        own = pool.submit(roambench, "fleet", "exec", provisioned.bench, "--root", "--", "sleep 5; id -un")
        refused = {
            words[0]: pool.submit(by_ben, "fleet", words[0], bens, *words[1:], "--wait", "200")
            for words in lines
        }
    run_said = by_ben(*run, "--runs-dir", bens.parent / "runs")
    assert own.result().code == 0
    for command, said in refused.items():
        rows = said.result().rows()
        assert said.result().code == 1, said.result()
        assert set(rows) == {"pi1", "pi2", "pi3"}, command
        for row in rows.values():
            assert row["reason"].startswith(f"it belongs to bench lab{provisioned.folder.name} of "), command
            assert "--take" in row["next action"]
    assert run_said.code != 0
    assert f"pi1: it belongs to bench lab{provisioned.folder.name} of " in run_said.err, run_said
    assert boots == {name: provisioned.state()[name]["init"] for name in provisioned.names}
    assert strangers(provisioned.bench) == {}


def test_a_board_is_taken_from_a_run_that_hears_of_it_and_before_its_new_owner_has_wheels(
    provisioned: BenchHosts, bens: Path, tmp_path: Path
):
    run = BenchRun(provisioned.bench, tmp_path / "annas", *ALWAYS_THERE)
    try:
        run.wait_for(EventKind.TRAIN_STARTED, "pi2", "%")
        said = by_ben(
            "fleet", "provision", bens, "--take", "--only", "pi2", PIP_NO_INDEX="1", PIP_FIND_LINKS=""
        )
        run.wait_for_line(_TAKEN, patience_s=120.0)
        assert run.stopped() == 143
    finally:
        run.stop()
    assert said.code == 1
    steps = [line.partition(":")[0].split() for line in said.err.splitlines()]
    assert steps == [["pi2", "claim"], ["pi2", "wheels"]], said
    (sentence,) = strangers(provisioned.bench).items()
    assert sentence[0] == "pi2"
    assert sentence[1].startswith("it belongs to bench ben of ben@")
    said = roambench("fleet", "reboot", provisioned.bench, "--only", "pi2")
    assert said.rows()["pi2"]["reason"].startswith("it belongs to bench ben of ben@"), said


def test_of_two_who_provision_a_free_board_at_once_one_has_it_whole(provisioned: BenchHosts, bens: Path):
    mine = load_bench(provisioned.bench).state_dir
    shutil.copytree(mine / "wheelhouse", load_bench(bens).state_dir / "wheelhouse")  # both have the wheels
    provisioned.inside("pi3", "rm /etc/roambench/claim.json")
    with ThreadPoolExecutor() as pool:
        words = ("--only", "pi3")
        said = {
            "ann": pool.submit(roambench, "fleet", "provision", provisioned.bench, *words),
            "ben": pool.submit(by_ben, "fleet", "provision", bens, *words),
        }
    codes = {name: one.result().code for name, one in said.items()}
    assert sorted(codes.values()) == [0, 1], [one.result() for one in said.values()]
    loser = said["ann" if codes["ann"] else "ben"].result().rows()["pi3"]
    assert "belongs to bench" in loser["reason"] or "at the same moment" in loser["reason"]
    again = (by_ben if codes["ann"] else roambench)(
        "fleet", "provision", bens if codes["ann"] else provisioned.bench, *words
    )
    assert (again.code, again.rows()["pi3"]["state"].partition(" (")[0]) == (0, "unchanged"), again
