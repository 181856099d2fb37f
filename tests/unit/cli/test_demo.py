"""`roambench demo`: what it shows, and where it opens what it made."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from forked_commands import roambench

#: What decides whether there is a desktop, and which browser it has.
_ASKED = ("CI", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


@pytest.mark.parametrize(
    ("variables", "words", "opens"),
    [
        ({"DISPLAY": ":9"}, (), True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, (), True),
        ({"DISPLAY": ":9"}, ("--no-open",), False),
        ({"DISPLAY": ":9", "CI": "true"}, (), False),
        ({}, (), sys.platform == "darwin"),
    ],
)
def test_the_demo_says_who_wastes_more_and_opens_its_report_on_a_desktop(
    tmp_path: Path, variables: dict[str, str], words: tuple[str, ...], opens: bool
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >{tmp_path}/opened\n')
    browser.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if name not in _ASKED}
    env |= {**variables, "BROWSER": f"{browser} %s"}
    done = roambench("demo", "--fleet", "rehearsal", *words, cwd=tmp_path, env=env)
    done.check_returncode()
    assert "In one run each, hierfavg wasted 23 % of its trainings, mohawk 7 %." in done.stdout
    assert re.search(r"^trace \w{12}: 8 devices, .* \d+ cores$", done.stdout, re.MULTILINE)  # in one piece
    report = (tmp_path / "runs/demo/latest/report.html").resolve()
    assert report.is_file()
    opened = tmp_path / "opened"
    assert (opened.read_text() if opened.exists() else "") == (f"{report.as_uri()}\n" if opens else "")
