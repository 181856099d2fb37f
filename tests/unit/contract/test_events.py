"""The kinds of event: each is produced and consumed, or marked as for the log; none is spelled elsewhere."""

import ast
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

from roambench.contract.events import EventKind, event_kind
from roambench.contract.phases import Phase
from roambench.contract.records import AgentEvent, RecordKind
from roambench.report.summaries.orders import incidents
from roambench.rounds.records import FleetEvent
from roambench.runs.measured.accounts import phase_begun
from roambench.runs.record_store import RecordStore

ROOT = Path(__file__).parents[3]
#: Whoever is called with a kind stores it, sends it or passes it on; a dictionary's value is reported later.
PRODUCERS = {
    *("AgentEvent", "append", "event", "note", "observe", "partial", "pass_on", "refused", "report"),
    *("report_and_log", "_note", "_refused", "_report", "_stranger_refused"),
}
#: Reasons of wasted trainings, which happen to be spelled like a kind.
REASONS = {"upload refused"}


def sources(*folders: str, holding: Collection[str]) -> Iterator[tuple[Path, ast.Module]]:
    """One file's tree at a time: a million kept nodes would slow every collection of garbage after."""
    files = sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    here = {Path(__file__), ROOT / "protos/roambench/contract/events.py"}
    read = ((file, file.read_text()) for file in files if file not in here)
    return ((file, ast.parse(text)) for file, text in read if any(map(text.__contains__, holding)))


def mentions(tree: ast.AST, above: tuple[ast.AST, ...] = ()) -> Iterator[tuple[str, tuple[ast.AST, ...]]]:
    """Every `EventKind.NAME` with what it stands in, the innermost first."""
    if isinstance(tree, ast.Attribute) and isinstance(tree.value, ast.Name) and tree.value.id == "EventKind":
        yield tree.attr, above
    for child in ast.iter_child_nodes(tree):
        yield from mentions(child, (tree, *above))


def does_nothing(arm: ast.match_case) -> bool:
    (*_, last) = arm.body
    return isinstance(last, ast.Return) and isinstance(last.value, ast.Constant) and last.value.value is None


def use_of(name: str, above: tuple[ast.AST, ...]) -> str:
    """ "produced", "consumed", or "" for a mention that is neither (an arm of a match that does nothing)."""
    for node in above:
        if isinstance(node, ast.Compare):
            return "consumed"
        if isinstance(node, ast.match_case):
            return "" if does_nothing(node) else "consumed"
        if isinstance(node, ast.Dict):
            keys = [key.attr for key in node.keys if isinstance(key, ast.Attribute)]
            return "consumed" if name in keys else "produced"
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            return "consumed" if called == "frozenset" else "produced" if called in PRODUCERS else ""
    return ""


@cache
def uses() -> set[tuple[str, str]]:
    return {
        (name, use_of(name, above))
        for _, tree in sources("agent", "controller", "protos", holding=["EventKind"])
        for name, above in mentions(tree)
    }


@pytest.mark.parametrize("kind", list(EventKind), ids=lambda kind: kind.name)
def test_each_kind_is_produced_and_consumed_or_for_the_log_only(kind: EventKind) -> None:
    found = uses()
    assert (kind.name, "produced") in found
    assert ((kind.name, "consumed") in found) is not kind.log_only


def test_no_kind_is_spelled_as_text() -> None:
    kinds = set(EventKind) - set(REASONS)
    quoted = re.compile("|".join(f"'{re.escape(kind)}'" for kind in EventKind))
    spelled = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {node.value[:60]}"
        for file, tree in sources("agent", "controller", "protos", "benchmarks", "tests", holding=EventKind)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value in kinds or ("'" in node.value and quoted.search(node.value))
    ]
    assert spelled == []


def test_the_walk_sees_what_it_is_to_see() -> None:
    tree = ast.parse(
        "report(EventKind.A, 1)\nif kind == EventKind.B: pass\nsize(EventKind.C)\n"
        "S = {EventKind.D: EventKind.E}\n"
        "match kind:\n  case EventKind.F:\n    go()\n  case EventKind.G | EventKind.H:\n    return None\n"
    )
    assert {(name, use_of(name, above)) for name, above in mentions(tree)} == {
        *(("A", "produced"), ("B", "consumed"), ("C", ""), ("D", "consumed"), ("E", "produced")),
        *(("F", "consumed"), ("G", ""), ("H", "")),
    }


def test_only_what_begins_a_transfer_or_a_training_begins_a_phase() -> None:
    begun = {kind: phase_begun(kind) for kind in EventKind}
    assert {kind: phase for kind, phase in begun.items() if phase is not None} == {
        EventKind.DOWNLOAD_STARTED: Phase.DOWNLOAD,
        EventKind.TRAIN_STARTED: Phase.TRAIN,
        EventKind.EVALUATE_STARTED: Phase.EVALUATE,
        EventKind.UPLOAD_STARTED: Phase.UPLOAD,
        EventKind.EXCHANGE_STARTED: Phase.EXCHANGE,
    }


def test_what_every_exchange_tells_is_no_incident() -> None:
    ordinary = EventKind.PEER_PORT_OPEN, EventKind.EXCHANGE_STARTED, EventKind.EXCHANGE_FINISHED
    seen = [FleetEvent(1, 0, "pi-01", kind, "") for kind in (*ordinary, EventKind.NO_PEER_PORT)]
    assert [one.kind for one in incidents(seen, ("pi-01",))] == [EventKind.NO_PEER_PORT]


def test_a_kind_of_another_version_is_stored_and_shown_and_begins_no_phase(tmp_path: Path) -> None:
    event = AgentEvent(event_kind("coffee made"), 5, "two cups")
    assert AgentEvent.from_bytes(event.to_bytes()) == event
    assert AgentEvent.from_bytes(b'["train started",5,""]').kind is EventKind.TRAIN_STARTED
    store = RecordStore(tmp_path / "records.sqlite")
    assert store.insert("pi-01", "aa", [(1, int(RecordKind.EVENT), event.to_bytes())]) == 1
    assert list(store.events("pi-01")) == [event]
    store.close()
    assert phase_begun(event.kind) is None
    (seen,) = incidents([FleetEvent(1, 0, "pi-01", event.kind, event.detail)], ("pi-01",))
    assert (seen.kind, seen.detail) == ("coffee made", "two cups")
