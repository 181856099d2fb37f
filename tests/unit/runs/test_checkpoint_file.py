"""The file a run goes on from: the old one or the new one, wherever the writer ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from roambench.contract.errors import RunError
from roambench.runs.checkpoint_file import (
    NAME,
    Checkpoint,
    forget_checkpoint,
    read_checkpoint,
    write_checkpoint,
)

OLD = Checkpoint(3, '{"a": 1}', {"torch": "2"}, {"held": [{"row": 1}]})
NEW = Checkpoint(4, '{"a": 2}', {"torch": "2"}, {"held": []})


class Killed(BaseException):
    pass


def test_a_checkpoint_comes_back_and_goes(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path) is None
    write_checkpoint(tmp_path, OLD)
    assert read_checkpoint(tmp_path) == OLD
    forget_checkpoint(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_wherever_a_writer_ends_there_is_the_old_checkpoint_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends before each of its calls in turn; what it left beside does not disturb the next."""
    found = []
    for last in range(20):
        monkeypatch.undo()
        write_checkpoint(tmp_path, OLD)
        left = last

        def counted(call):
            def wrapped(*words, **more):
                nonlocal left
                if left == 0:
                    raise Killed
                left -= 1
                return call(*words, **more)

            return wrapped

        for owner, name in ((os, "fsync"), (os, "replace"), (os, "rename"), (Path, "replace")):
            monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
        monkeypatch.setattr(Path, "unlink", counted(Path.unlink))  # a killed process tidies up nothing
        try:
            write_checkpoint(tmp_path, NEW)
        except Killed:
            found.append(read_checkpoint(tmp_path))
        else:
            break
    assert read_checkpoint(tmp_path) == NEW
    assert all(one in (OLD, NEW) for one in found)
    assert OLD in found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "checkpoint.json: not JSON"),
        ("[]", "top level: expected an object"),
        ('{"format": 9}', "format: expected 1, got 9"),
        ('{"format": 1, "next_step": 1}', "rounds: is missing; .*made_with: is missing"),
        ("[" * 100_000, "checkpoint.json: not JSON"),
    ],
)
def test_what_is_no_checkpoint_says_so(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(RunError, match=message):
        read_checkpoint(tmp_path)
