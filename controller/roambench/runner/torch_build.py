"""The build of PyTorch that is installed: pip's usual one brings gigabytes of CUDA."""

from __future__ import annotations

import re
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from roambench.contract.extra_packages import pip_install

_DRIVER = Path("/proc/driver/nvidia/version")


def torch_advice() -> str:
    """A sentence where PyTorch came with CUDA to a machine without a driver for it; "" elsewhere.

    PyTorch itself is not read for it, which would take seconds.
    """
    spec = find_spec("torch")
    if spec is None or spec.origin is None or _DRIVER.exists():
        return ""
    return advice_on(Path(spec.origin).with_name("version.py").read_text(encoding="utf-8"), version("torch"))


def advice_on(version_file: str, release: str) -> str:
    """The sentence on a build by its version.py; "" where that has no CUDA."""
    if not re.search(r"^cuda\b[^=\n]*= *['\"]", version_file, re.MULTILINE):
        return ""
    return (
        "PyTorch was installed with CUDA, gigabytes that this machine has no driver for; the small build: "
        + pip_install(
            *("--force-reinstall", "--no-deps", "--index-url", "https://download.pytorch.org/whl/cpu"),
            f"torch=={release.partition('+')[0]}",
        )
    )
