"""The command that installs what an extra needs, by the pip of the Python that runs.

roambench is on no package index, where a stranger could register its name: commands name the packages.
"""

from __future__ import annotations

import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires


def install_command(extra: str, *names: str, python: str = "") -> str:
    """The command for the packages of roambench's `extra`, or for `names` among them alone; `python`: in the
    environment of that interpreter."""
    try:
        needs = requires("roambench") or []
    except PackageNotFoundError:
        needs = []
    found = [
        need.strip()
        for need, _, marker in (text.partition(";") for text in needs)
        if re.search(rf"extra == ['\"]{extra}['\"]", marker)
        and (not names or re.split(r"[^\w.-]", need, maxsplit=1)[0] in names)
    ]
    return pip_install(*(found or names or [extra]), python=python)


def pip_install(*requirements: str, python: str = "") -> str:
    """The command for these requirements, as a shell takes it."""
    return shlex.join([python or sys.executable, "-m", "pip", "install", *requirements])
