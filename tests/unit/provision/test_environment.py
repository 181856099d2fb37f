"""The script that installs an agent's build, in a folder of this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

from roambench.provision import layout
from roambench.provision.subjects.environment import _GONE, _INSTALLED, _SWITCHED


def test_a_build_that_another_caller_has_finished_meanwhile_stays_as_it_is(tmp_path: Path) -> None:
    """It was deleted and installed again, under the agent that ran it."""
    opt = tmp_path / "opt"
    build = opt / Path(layout.BUILDS).relative_to(layout.OPT) / "abc"
    build.mkdir(parents=True)
    for name, text in (("build.json", "{}"), ("venv", "in use")):
        (build / name).write_text(text)
    for sent in ("roambench.whl", "mine.whl"):
        (opt / sent).write_text("sent")
    script = _INSTALLED.replace(layout.LOCK, str(tmp_path / "lock")).replace(layout.OPT, str(opt))
    words = ("abc", "house", "pip.whl", "roambench.whl", "{}", "", "mine", "./mine.whl")
    ran = subprocess.run(["sh", "-c", script, "sh", *words], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert {path.name: path.read_text() for path in build.iterdir()} == {"build.json": "{}", "venv": "in use"}
    assert [path.name for path in opt.glob("*.whl")] == []


def test_a_switch_spares_the_build_that_another_caller_has_switched_to_meanwhile(tmp_path: Path) -> None:
    """By facts of before it was an older one: it was deleted under its agent."""
    opt = tmp_path / "opt"
    for build in ("mine", "theirs", "old"):
        (opt / "builds" / build / "venv").mkdir(parents=True)
        (opt / "builds" / build / "build.json").touch()
    (opt / "wheels" / "house").mkdir(parents=True)
    (opt / "current").symlink_to("builds/theirs/venv")
    script = _SWITCHED.replace(layout.LOCK, str(tmp_path / "lock")).replace(layout.OPT, str(opt))

    def switch(build: str) -> int:
        words = ["sh", "-c", script, "sh", build, "house", ""]
        return subprocess.run(words, check=False, capture_output=True).returncode

    assert switch("mine") == 0
    assert sorted(path.name for path in (opt / "builds").iterdir()) == ["mine", "theirs"]
    assert (str((opt / "current").readlink()), str((opt / "previous").readlink())) == (
        "builds/mine/venv",
        "builds/theirs/venv",
    )
    assert switch("old") == _GONE
    assert str((opt / "current").readlink()) == "builds/mine/venv"
