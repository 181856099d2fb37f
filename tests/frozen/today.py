"""What is frozen, as it is today: reports and ledgers of kept runs, commands, names, joules of worlds.

All of it is asked for as users do, by the command line and `import roambench`, but for the tree of commands.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from enum import EnumType
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from fidelity.judged import Row, run_of

import roambench as rb
from roambench.agent import cli as agent_cli
from roambench.cli.main import command, main

FILES: Final = Path(__file__).parent / "files"
#: Each an archive below `files/runs`: two systems on local agents and on virtual devices, local agents that
#: exchange models with each other, and a bench of three boards of which one dies and comes back.
RUNS: Final = ("local", "simulated", "peers", "bench")
#: Worlds of benchmarks/energy_fidelity.py: what holds, and of what does not one for each flag.
WORLDS: Final = (
    *("clean_1s", "real_board_60", "ups", "lost_doubled", "sp3_real", "everything", "peers_real"),
    *("ups_short", "promotion_1s", "clock_minus", "frozen", "late_1s_load", "locked"),
)
SEEDS: Final = 2
#: Relative, and below a billionth of a joule or second absolute: what adding up in another order changes.
TOLERANCE: Final = 1e-9


def printed(call: Callable[[], object]) -> str:
    """What a command prints until it exits with 0."""
    out = io.BytesIO()
    screen = io.TextIOWrapper(out, encoding="utf-8")
    with contextlib.redirect_stdout(screen):
        try:
            call()
        except SystemExit as end:
            if end.code:
                raise AssertionError(f"the command failed with exit status {end.code}") from None
    screen.flush()
    return out.getvalue().decode()


def unpacked(name: str, folder: Path) -> list[Path]:
    """The run folders of that archive, made in `folder`."""
    with tarfile.open(FILES / "runs" / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return sorted(folder.iterdir())


def document(name: str, folder: Path) -> Any:
    """What `roambench report --json` prints of kept runs."""
    return json.loads(printed(lambda: main(("report", *map(str, unpacked(name, folder)), "--json"))))


def ledger(name: str, folder: Path) -> Any:
    """The rows of kept runs' ledgers, computed again from readings and phases, column by column."""
    tables = {run.name: rb.load(run).ledger for run in unpacked(name, folder)}
    return {run: {each: rows[each].to_pylist() for each in rows.names} for run, rows in tables.items()}


def commands(folder: Path) -> Any:
    """Every command: its help, and of each argument and option how it is written and what it takes."""
    return {words: _described(each) for words, each in _walked(command(), "roambench")}


def _walked(one: Any, words: str) -> Iterator[tuple[str, Any]]:
    yield words, one
    for name, each in getattr(one, "commands", {}).items():
        yield from _walked(each, f"{words} {name}")


def _described(one: Any) -> dict[str, Any]:
    parameters = dict(_parameter(parameter) for parameter in one.params)
    texts = {what: getattr(one, what) for what in ("help", "epilog", "hidden")}
    arguments = [name for name, each in parameters.items() if not each["spellings"]]
    return {**texts, "arguments": arguments, "parameters": parameters}


def _parameter(one: Any) -> tuple[str, dict[str, Any]]:
    """An option by its longest spelling, an argument by what the usage calls it."""
    spellings = sorted(word for word in (*one.opts, *one.secondary_opts) if word.startswith("-"))
    # Mappings, not lists: one more spelling or choice is no difference.
    traits = {"spellings": dict.fromkeys(spellings, True), "type": _type(one.type_descriptor.annotation)}
    for what in ("help", "default", "metavar", "required", "multiple", "nargs", "min", "max", "envvar"):
        traits[what] = getattr(one, what)
    name = max(one.opts, key=len) if spellings else one.metavar or one.name.upper()
    return name, json.loads(json.dumps(traits, default=str))


def _type(of: Any) -> str | dict[str, bool]:
    if isinstance(of, EnumType):
        return {each.value: True for each in of}
    # Python 3.13 has a Path elsewhere.
    return of.__name__ if isinstance(of, type) else str(of).replace("pathlib._local.", "pathlib.")


def agent_commands(folder: Path) -> Any:
    """The help of what boards run, without its line breaks."""
    texts = {}
    for words in ("", "run", "shape", "ctl"):
        with pytest.MonkeyPatch.context() as process:
            process.setattr(sys, "argv", ["roambench-agent", *words.split(), "--help"])
            process.setenv("COLUMNS", "1000")  # so that no word is cut
            texts[words] = " ".join(printed(agent_cli.main).split())
    return texts


def lists(folder: Path) -> Any:
    """What `roambench list` prints of every kind: descriptions by name."""
    options = dict(_parameter(one) for one in command().commands["list"].params)
    kinds = {}
    for kind in options["KIND"]["type"]:
        rows = json.loads(printed(partial(main, ("list", kind, "--json"))))
        kinds[kind] = {row["name"]: row["description"] for row in rows}
    return kinds


def worlds(folder: Path) -> Any:
    """Joules, uncertainty, flags and verdict of worlds whose truth is known."""
    rows = {}
    for name in WORLDS:
        runs = [run_of(name, seed) for seed in range(SEEDS)]
        figures = [
            {
                "flags": sorted(run.flags),
                "measured_j": {what: figure.measured_j for what, figure in run.figures.items()},
                "u_j": {what: figure.u_j for what, figure in run.figures.items()},
                "true_j": {what: figure.true_j for what, figure in run.figures.items()},
            }
            for run in runs
        ]
        rows[name] = {"verdict": Row.of(name, runs).verdict, "runs": figures}
    return rows


#: By the name of its file: what makes it, in an empty folder.
FROZEN: Final[Mapping[str, Callable[[Path], Any]]] = {
    **{f"documents/{name}": partial(document, name) for name in RUNS},
    **{f"ledgers/{name}": partial(ledger, name) for name in RUNS},
    "help/roambench": commands,
    "help/roambench-agent": agent_commands,
    "lists": lists,
    "worlds": worlds,
}


def file_of(what: str) -> Path:
    """Where it is kept."""
    return FILES / f"{what}.json"


def differences(frozen: Any, today: Any, place: str = "") -> Iterator[str]:
    """What was lost or changed, each a line that says where. New keys are no difference."""
    if isinstance(frozen, dict) and isinstance(today, dict):
        for key, value in frozen.items():
            if key in today:
                yield from differences(value, today[key], f"{place} > {key}")
            else:
                yield f"{place} > {key}: lost"
    elif isinstance(frozen, list) and isinstance(today, list) and len(frozen) == len(today):
        for index, (value, new) in enumerate(zip(frozen, today, strict=True)):
            yield from differences(value, new, f"{place} > {index}")
    elif not _is_equal(frozen, today):
        yield f"{place}: was {json.dumps(frozen)[:400]}, is {json.dumps(today)[:400]}"


def _is_equal(frozen: Any, today: Any) -> bool:
    if not (_is_number(frozen) and _is_number(today)):
        return type(frozen) is type(today) and frozen == today
    if isinstance(frozen, int) and isinstance(today, int):
        return frozen == today
    if math.isnan(frozen) or math.isnan(today):
        return math.isnan(frozen) and math.isnan(today)
    return math.isclose(frozen, today, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
