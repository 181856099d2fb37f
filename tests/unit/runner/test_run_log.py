"""What nobody foresaw keeps its traceback in the run folder; the console gets one sentence that names it."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import math
import os
import threading
from pathlib import Path

import pytest
from grpc._cython.cygrpc import ExecuteBatchError

from roambench.cli.main import main
from roambench.contract.errors import FleetError, RunError, UnexpectedError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.shortages import SHORTAGES
from roambench.fleet.crashes import logged_if_it_crashes
from roambench.runner import composition
from roambench.runner.run_log import LOG, logged
from roambench.runs.database import naming

EXPERIMENT = """
name = "try"
systems = ["mohawk"]
trace = { generator = "city", window = "first", steps = 3, parameters = { steps = 3 } }
"""


async def crashes(text: str) -> None:
    raise ZeroDivisionError(text)


async def two_tasks_crash() -> None:
    tasks = [
        logged_if_it_crashes(asyncio.create_task(crashes(text), name=text)) for text in ("first", "second")
    ]
    await asyncio.wait(tasks)


def test_a_task_that_crashes_keeps_its_traceback_and_is_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with logged(tmp_path, "run try"):
        asyncio.run(two_tasks_crash())
    text = (tmp_path / LOG).read_text()
    assert text.count("Traceback (most recent call last)") == 2
    assert "the task 'first' ended" in text
    assert "the task 'second' ended" in text
    assert "in crashes\n    raise ZeroDivisionError(text)" in text
    (line,) = capfd.readouterr().err.splitlines()
    bug = "a bug, please report it: ZeroDivisionError: first"
    assert line == f"roambench: run try goes on after {bug}; see {tmp_path / LOG}"


def test_what_grpc_says_of_strangers_is_no_error_of_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Bytes that are no text, and an answer to a call whose other side is gone; but what our code did is."""
    grpc = logging.getLogger("grpc._cython.cygrpc")
    with logged(tmp_path, "run try"):
        grpc.error("'utf-8' codec can't decode byte 0xe4", exc_info=(None, None, None))
        try:
            b"\xe4".decode()
        except UnicodeDecodeError:
            grpc.exception("Invalid encoding")
        try:
            raise ExecuteBatchError("execute_batch", ())
        except ExecuteBatchError:
            grpc.exception("raised in core by servicer method")
        assert not (tmp_path / LOG).exists()
        try:
            LearningSpec.from_json("in a call")
        except ValueError:
            grpc.exception("unexpected")
    assert "learning settings: not JSON" in (tmp_path / LOG).read_text()
    assert "goes on after" in capfd.readouterr().err


def test_an_exception_that_no_task_was_asked_for_is_kept_and_so_is_a_threads(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def forgotten() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(0)

    before = threading.excepthook
    with logged(tmp_path, "run try"):
        asyncio.run(forgotten())
        thread = threading.Thread(target=lambda: [][0], name="beat")
        thread.start()
        thread.join()
    assert threading.excepthook is before
    text = (tmp_path / LOG).read_text()
    assert "ZeroDivisionError" in text
    assert "IndexError" in text
    assert len(capfd.readouterr().err.splitlines()) == 1


def test_what_is_raised_on_purpose_leaves_no_log(tmp_path: Path) -> None:
    handlers = list(logging.getLogger().handlers)
    with pytest.raises(FleetError, match="the fleet is gone"), logged(tmp_path, "run try"):
        raise FleetError("the fleet is gone")
    assert list(tmp_path.iterdir()) == []
    assert logging.getLogger().handlers == handlers


def test_its_size_is_bounded_and_a_folder_that_is_gone_ends_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with logged(tmp_path, "run try"):
        for _ in range(30):
            logging.getLogger("somebody").error("x" * 100_000)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {LOG, f"{LOG}.1"}
    assert max(sizes.values()) <= 1_000_000
    assert 0 < len(capfd.readouterr().err) < 500
    with logged(tmp_path / "gone", "run try"):
        logging.getLogger("somebody").error("nowhere to write it")
    assert len(capfd.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("where", ["in the run", "before it"])
def test_no_command_ends_in_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], where: str
) -> None:
    """The mistake is made up, since none is known: another function is called, which takes no such thing."""
    (tmp_path / "try.toml").write_text(EXPERIMENT)
    monkeypatch.setattr(composition, "write_trace" if where == "in the run" else "world_of", math.sqrt)
    runs = tmp_path / "runs"
    with pytest.raises(SystemExit) as end:
        main(["run", str(tmp_path / "try.toml"), "--fleet", "rehearsal", "--runs-dir", str(runs)])
    assert end.value.code == 1
    (line,) = capfd.readouterr().err.splitlines()
    head, _, log = line.partition("; the traceback is in ")
    run = "run try-mohawk: " if where == "in the run" else ""
    assert head.startswith(f"roambench: {run}a bug, please report it: TypeError: ")
    text = Path(log).read_text()
    assert "composition.py" in text
    assert "Traceback (most recent call last)" in text
    if where == "in the run":
        assert Path(log) == (runs / "try/latest/mohawk").resolve() / LOG
        assert json.loads((runs / "try/latest/mohawk" / "run.json").read_text())["state"] == "failed"


@pytest.mark.parametrize("number", SHORTAGES)
def test_a_machine_that_is_short_of_something_is_no_bug_and_the_sentence_says_what_helps(
    number: int, tmp_path: Path
) -> None:
    lack = OSError(number, os.strerror(number), "/proc/1/stat")
    with pytest.raises(UnexpectedError) as caught, logged(tmp_path, "run r"):
        raise ExceptionGroup("tasks", [lack])
    said = str(caught.value)
    assert "bug" not in said
    assert f"this machine fails: {os.strerror(number)} (/proc/1/stat); {SHORTAGES[number]}" in said


def test_a_run_folders_file_that_cannot_be_opened_is_named_with_what_helps(tmp_path: Path) -> None:
    path = tmp_path / "events.sqlite"
    with pytest.raises(RunError) as caught, naming(path):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    assert str(caught.value) == f"{path}: Too many open files; {SHORTAGES[errno.EMFILE]}"
