"""What a host's own files say of it, and the script that makes a board quiet and puts it back."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roambench.contract.json_values import from_json
from roambench.provision import facts_probe
from roambench.provision.facts import QUESTIONS, Facts, Questions, questions_before_a_run
from roambench.provision.subjects import board

_FILES = {
    "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
    "proc/1/comm": "systemd\n",
    "proc/device-tree/model": "Raspberry Pi 3 Model B Plus Rev 1.3\0",
    "proc/meminfo": "MemTotal:  904000 kB\n",
    "proc/swaps": "Filename Type\n/var/swap file\n/dev/zram0 partition\n",
    "opt/roambench/builds/aa/build.json": '{"build": "aa"}',
    "opt/roambench/builds/bb/venv/x": "",
    "opt/roambench/programs/cc/about.json": '{"name": "mine"}',
    "opt/roambench/programs/env-dd/venv/x": "",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "ondemand\n",
    "sys/class/leds/ACT/trigger": "none [mmc0] timer\n",
    "sys/class/leds/ACT/brightness": "255\n",
    "sys/class/leds/keyboard::capslock/trigger": "[kbd]\n",
    "sys/class/drm/card1-HDMI-A-1/status": "connected\n",
    "sys/class/rfkill/rfkill0/type": "bluetooth\n",
    "sys/class/rfkill/rfkill0/soft": "0\n",
    "sys/class/tty/ttyUSB0/serial": "02A1C001\n",
    "etc/roambench/agent.json": "{}",
}


def _root(folder: Path) -> Path:
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "opt/roambench/current").symlink_to("builds/aa/venv")
    return folder


def test_a_boards_files_become_facts(tmp_path: Path) -> None:
    asked = json.loads(QUESTIONS.to_json())
    facts = from_json(Facts, json.dumps(facts_probe.probe(asked, _root(tmp_path))), "facts")
    assert (facts.os_id, facts.os_version, facts.init) == ("debian", "12", "systemd")
    assert facts.model == "Raspberry Pi 3 Model B Plus Rev 1.3"
    assert facts.memory_bytes == 904_000 * 1024
    assert facts.builds == {"aa": {"build": "aa"}, "bb": None}
    assert facts.programs == {"cc": {"name": "mine"}, "env-dd": None}
    assert (facts.current, facts.previous) == ("aa", "")
    assert facts.board.governors == ("ondemand",)
    assert facts.board.leds == {"ACT": "mmc0"}
    assert facts.board.screens == {"card1-HDMI-A-1": "connected"}
    assert facts.board.swaps == ("/var/swap",)
    assert facts.board.bluetooth == {"rfkill0": "0"}
    assert facts.serials == {"ttyUSB0": "02A1C001"}
    settings = facts.files["/etc/roambench/agent.json"]
    assert settings is not None
    assert settings.sha256.startswith("44136fa355b3678a")  # of "{}"
    assert facts.files["/opt/roambench/board.sh"] is None


def test_the_script_answers_on_this_machine_with_nothing_but_python() -> None:
    script = Path(facts_probe.__file__).read_bytes()
    ran = subprocess.run(
        [sys.executable, "-I", "-", QUESTIONS.to_json()], input=script, capture_output=True, check=True
    )
    facts = from_json(Facts, ran.stdout, "facts")
    assert facts.machine == os.uname().machine


#: Runs a script as Python 3.9 (Debian 11) would: zip takes no `strict`, and `str | None` cannot be computed.
_OLDER = """
import builtins, sys
newer, path = zip, sys.argv.pop(1)
builtins.zip = lambda *series: newer(*series)
names = {"__name__": "__main__"}
exec(compile(open(path).read(), path, "exec"), names)
own = [one for one in names.values() if getattr(one, "__module__", "") == "__main__"]
sys.exit(any(not isinstance(hint, str) for one in own for hint in one.__annotations__.values()))
"""


@pytest.mark.parametrize("questions", [QUESTIONS, questions_before_a_run(["torch"])])
def test_a_host_of_an_older_debian_is_told_apart_by_its_own_answers(questions: Questions) -> None:
    asked = [sys.executable, "-c", _OLDER, str(facts_probe.__file__), questions.to_json()]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert json.loads(answer.stdout)["bits"] == 64


#: Methods of texts, paths and mathematics that came with Python 3.8 and 3.9.
_NEWER = {"removeprefix", "removesuffix", "readlink", "is_relative_to", "with_stem", "isqrt", "prod"}


def test_the_script_says_nothing_that_python_3_7_does_not_know() -> None:
    """Such a host is refused for its Python, by name, not for an error of ours."""
    script = ast.parse(Path(facts_probe.__file__).read_text(), feature_version=(3, 7))
    used = [node for node in ast.walk(script) if isinstance(node, ast.Attribute) and node.attr in _NEWER]
    assert [ast.unparse(node) for node in used if not ast.unparse(node).startswith("os.")] == []


def test_a_board_is_made_quiet_and_put_back_as_it_was(tmp_path: Path) -> None:
    root = _root(tmp_path)
    before = _state(root)
    _board(root, "apply")
    _board(root, "apply")  # twice is once
    quiet = _state(root)
    assert quiet["governor"] == "performance"
    assert quiet["led"] == "none"
    assert quiet["brightness"] == "0"
    assert quiet["hdmi"] == "off"
    assert quiet["bluetooth"] == "1"
    _board(root, "restore")
    # Of the LED's list of triggers the kernel shows the chosen one; a screen is looked for anew.
    assert _state(root) == {**before, "led": "mmc0", "hdmi": "detect"}


def _state(root: Path) -> dict[str, str]:
    names = {
        "governor": "devices/system/cpu/cpu0/cpufreq/scaling_governor",
        "led": "class/leds/ACT/trigger",
        "brightness": "class/leds/ACT/brightness",
        "hdmi": "class/drm/card1-HDMI-A-1/status",
        "bluetooth": "class/rfkill/rfkill0/soft",
    }
    return {key: (root / "sys" / name).read_text().strip() for key, name in names.items()}


def _board(root: Path, command: str) -> None:
    script = Path(board.__file__).with_name("board.sh").read_text()
    # Swap and timers are this machine's own: the script looks for neither here.
    script = script.replace("/proc/swaps", str(root / "none")).replace("systemctl", "false")
    environment = {**os.environ, "SYS": str(root / "sys"), "NOTES": str(root / "notes")}
    subprocess.run(["sh", "-s", command], input=script.encode(), env=environment, check=True)


@pytest.mark.parametrize(
    ("address", "reason"),
    [("", None), ("127.0.0.1", ""), ("localhost", ""), ("nothere.invalid", "no such name")],
)
def test_the_way_to_a_controller_is_looked_for_without_sending_anything(
    tmp_path: Path, address: str, reason: str | None
) -> None:
    asked = json.loads(questions_before_a_run((), address).to_json())
    facts = from_json(Facts, json.dumps(facts_probe.probe(asked, _root(tmp_path))), "facts")
    assert facts.no_way == reason
    assert bool(facts.own_address) is (reason == "")


def test_an_address_without_a_route_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*args: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr("socket.socket.connect", unreachable)
    assert facts_probe._way("192.0.2.1") == ("192.0.2.1: Network is unreachable", "")
