"""`--json` of every command that prints figures or lists: one valid document, units in its keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forked_commands import roambench
from roambench.cli.main import command, main
from small_runs import measured, simulated
from tiny_experiment import SWEEP, TINY

ROOT = Path(__file__).parents[3]
EXPERIMENTS, BENCH = ROOT / "experiments", ROOT / "inventory" / "bench36.example.toml"
DEMO = str(EXPERIMENTS / "demo.toml")

#: Commands without: what they print is a sentence, or the path of what they made, or text for another file.
NO_FIGURES = {
    "init", "pause", "resume-replay", "watch", "figures", "trace plot", "export tensorboard",
    "export ro-crate", "meter fault", "fleet export", "fleet influx-token", "fleet release",
    "fleet emulate-switches", "fleet replace", "help", "version",
}  # fmt: skip

INVENTORY = '{"_meta": {"hostvars": {"node-1": {"ansible_host": "127.0.0.1"}}}, "all": {"hosts": ["node-1"]}}'


def walked(of: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command that does something, by what is typed."""
    inner = getattr(of, "commands", {})
    if not inner:
        yield " ".join(words), of
    for name, each in inner.items():
        yield from walked(each, (*words, name))


def test_every_command_has_json_or_is_named_here_as_one_without_figures() -> None:
    with_json, without = set(), set()
    for words, each in walked(command()):
        options = {option for parameter in each.params for option in parameter.opts}
        (with_json if "--json" in options else without).add(words)
    assert without == NO_FIGURES
    assert {"run", "demo", "resume", "sweep", "ab", "results", "report", "list", "data list"} <= with_json


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the commands below need."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "s.toml").write_text(SWEEP)
    (tmp_path / "hosts.json").write_text(INVENTORY)
    simulated(tmp_path / "mohawk")
    measured(tmp_path / "a")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    """What a command prints where no terminal is; one that starts processes is one itself."""
    if words[0] in ("sweep", "ab"):
        done = roambench(*words, cwd=Path.cwd())
        assert done.returncode == code, done.stderr
        return done.stdout, done.stderr
    with pytest.raises(SystemExit) as ended:
        main(words)
    printed = capsys.readouterr()
    assert (ended.value.code or 0) == code, printed.err
    return printed.out, printed.err


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "line",
    [
        "init e.toml",
        "trace generate city -o t.parquet --set devices=5 --set steps=4 ; trace plot t.parquet -o pages",
        "figures a -o drawn --format svg",
        "export tensorboard mohawk -o logs",
        f"fleet export {BENCH} -o hosts.yml",
    ],
)
def test_commands_without_json_print_paths_and_no_figure(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    *first, last = line.split(" ; ")
    for words in first:
        said(capsys, *words.split())
    out, _ = said(capsys, *last.split())
    assert 1 <= len(out.splitlines()) <= 20
    for word in out.split():
        assert "/" in word or "." in word or not re.search(r"\d", word), out
    assert not re.search(r"[│━]|  \S+  \S+  ", out)  # no table


#: Words of keys whose numbers have no unit: shares, factors, counts, places in an order.
NO_UNIT = {
    "accuracy", "threshold", "loss", "share", "rate", "factor", "gain", "alpha", "steps", "rounds",
    "z", "trainings", "per_step", "published", "this_trace", "deviation", "distance", "images",
    "classes_per_device", "models", "present", "steps_per_device", "occupied_aps", "devices_per_occupied_ap",
    "gap_steps", "hour_profile", "aggregations", "coverage", "time_scale",
    "present_mean_nonempty", "share_on_wifi",
}  # fmt: skip
UNITS = {"s", "ms", "ns", "j", "w", "mw", "v", "c", "m", "km", "h", "bytes", "mib", "ppm"}
UNIT = re.compile(rf"(^|_)({'|'.join(UNITS)}|mbit_s|seconds|joules|watts)(_per_[a-z]+)?$")


def floats(of: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys above every number with a point. What a trace's maker wrote about it is his."""
    if isinstance(of, dict):
        for name, value in of.items():
            if name != "provenance":
                yield from floats(value, (*keys, str(name)))
    elif isinstance(of, list):
        for value in of:
            yield from floats(value, keys)
    elif isinstance(of, float):
        yield keys


def has_unit(keys: tuple[str, ...]) -> bool:
    """A unit, or a word for what has none, in one of the keys."""
    return any(UNIT.search(key) or any(key.endswith(word) for word in NO_UNIT) for key in keys)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "line",
    [
        "list algorithms",
        "data list",
        "data show tiny.toml",
        "meter list",
        f"fleet list {BENCH}",
        "fleet import ansible hosts.json -o bench.toml --controller 10.0.0.1",
        "trace generate city -o t.parquet --set devices=5 --set steps=4",
        "trace generate city -o t.parquet --set devices=5 --set steps=4 --stats",
        "trace generate city -o t.parquet --set devices=5 --set steps=4 ; trace show t.parquet",
        "trace generate city -o t.parquet --set devices=5 --set steps=4 ; trace show t.parquet --step 1",
        "trace generate city -o t.parquet --set devices=5 --set steps=4 ; trace stats t.parquet",
        "trace generate city -o t.parquet --set devices=5 --set steps=4 ; trace export t.parquet -o t.csv "
        "--format csv",
        "run tiny.toml --fleet rehearsal",
        "run tiny.toml --fleet rehearsal --plan",
        "sweep s.toml",
        "sweep s.toml --check",
        "sweep s.toml --table",
        "ab tiny.toml tiny.toml --fleet rehearsal --repeats 2 --set-a systems=['mohawk'] "
        "--set-b systems=['hierfavg']",
        "report a",
        "resume .",
    ],
)
def test_json_is_one_document_with_units_in_its_keys(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    *first, last = line.split(" ; ")
    for words in first:
        said(capsys, *words.split())
    out, _ = said(capsys, *last.split(), "--json")
    document = json.loads(out, parse_constant=pytest.fail)  # no NaN
    assert [keys for keys in floats(document) if not has_unit(keys)] == []


@pytest.mark.usefixtures("here")
def test_results_as_json_have_the_cells_that_are_printed_and_every_runs_figures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said(capsys, "sweep", "s.toml")
    out, _ = said(capsys, "results", "runs/s")
    document = json.loads(said(capsys, "results", "runs/s", "--json")[0])
    printed = [line.split() for line in out.splitlines()]
    rows = [row for table in document["tables"] for row in table["rows"]]
    assert rows
    for row in rows:
        assert " ".join(row.values()).split() in printed
    assert {run["system"] for run in document["runs"]} == {"mohawk", "hierfavg"}
    assert {run["seed"] for run in document["runs"]} == {42, 43}


@pytest.mark.usefixtures("here")
def test_a_sweep_as_json_is_the_file_beside_its_runs(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said(capsys, "sweep", "s.toml", "--json")
    assert json.loads(out) == json.loads(Path("runs/s/table.json").read_text())
    assert "[2/3] run" in err
