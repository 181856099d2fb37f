"""The script that installs an agent's build, in a folder of this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

from roambench.provision import layout
from roambench.provision.subjects.environment import _INSTALLED


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
