"""`roambench-agent run`, as systemd starts it on a board."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tty
from dataclasses import replace
from pathlib import Path

import pytest

from roambench.agent.cli import ask
from roambench.agent.settings import AgentSettings, EmulationSettings, MeterSettings
from roambench.identity.authority import Authority

pytestmark = pytest.mark.lengthy


def settings_in(folder: Path, meter: str = "/dev/none") -> AgentSettings:
    """Of an agent with an identity and a meter, whose controller is away."""
    Authority.create().issue("pi-01").save(folder / "identity")
    return AgentSettings(
        "pi-01",
        "127.0.0.1:9",
        str(folder / "identity"),
        str(folder / "state"),
        machine_id="machine",
        meter=MeterSettings("smartpower2", meter, reopen_allowed=True),
        ctl_socket=str(folder / "ctl.sock"),
    )


def saved(settings: AgentSettings, folder: Path) -> str:
    path = folder / "settings.json"
    path.write_text(settings.to_json())
    return str(path)


def test_an_agent_on_a_board_imports_nothing_of_the_emulation(tmp_path: Path) -> None:
    meter, board = os.openpty()
    tty.setraw(board)
    settings = settings_in(tmp_path, os.ttyname(board))
    run = [sys.executable, "-v", "-m", "roambench.agent.cli", "run", "--settings"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd, (tmp_path / "log").open("wb") as log:
        systemd.bind(str(tmp_path / "notify"))
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        agent = subprocess.Popen([*run, saved(settings, tmp_path)], stderr=log, env=environment)
        try:
            assert systemd.recv(100) == b"READY=1"
            while not Path(settings.ctl_socket).exists():
                assert agent.poll() is None
            with (tmp_path / "answers").open("wb") as answers:
                for words in (["smoke"], ["burn", "0.1", "1"]):  # the first waits for the trainer
                    request = {"ask": words[0], "words": words[1:]}
                    assert ask(Path(settings.ctl_socket), request, answers, 60.0) == 0
            assert "libtorch" not in Path(f"/proc/{agent.pid}/maps").read_text()  # its trainer alone has it
        finally:
            agent.terminate()
            assert agent.wait() == 0
    os.close(meter)
    os.close(board)
    modules = set(re.findall(r"^import '([\w.]+)' #", (tmp_path / "log").read_text(), re.MULTILINE))
    assert {"roambench.agent.life.process", "roambench.meters.smartpower2", "torch"} <= modules
    assert {name for name in modules if "emulat" in name} == set()


def test_settings_of_an_emulated_board_are_refused(tmp_path: Path) -> None:
    emulated = replace(settings_in(tmp_path), emulation=EmulationSettings(None, "work.sock"))
    path = saved(emulated, tmp_path)
    run = [sys.executable, "-m", "roambench.agent.cli", "run", "--settings", path]
    ended = subprocess.run(run, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == (
        f"roambench-agent: {path}: emulation: expected none: this command is for boards (local fleets have "
        "emulated ones)\n"
    )
