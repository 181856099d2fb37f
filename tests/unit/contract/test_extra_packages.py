"""No message sends people to an index for roambench, where a stranger could register the name."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError
from roambench.contract.extra_packages import install_command
from roambench.learning.codecs.catalogue import codec_of

ROOT = Path(__file__).resolve().parents[3]
#: A wheel of it, or the checkout ("." and "-e ."), is another thing.
_BY_NAME = re.compile(r"pip3? install [^\n`]*(?<![\w/.-])roambench(?![\w-]*\.whl|-\*)(?=[\[\s\"'`=<>~]|$)")


def test_no_message_and_no_page_installs_it_by_name() -> None:
    folders = [ROOT / name for name in ("agent", "controller", "protos", "docs", "experiments", "packaging")]
    files = [file for folder in folders for kind in ("*.py", "*.md", "*.sh") for file in folder.rglob(kind)]
    for file in [*files, *ROOT.glob("*.md")]:
        found = [
            line
            for line in file.read_text("utf-8").splitlines()
            if _BY_NAME.search(line) and "--no-deps" not in line
        ]
        assert not found, (file, found)
    assert _BY_NAME.search('pip install "roambench[zstd]"')
    assert not _BY_NAME.search('pip install "$(ls dist/roambench-*.whl)[controller]"')


def test_a_package_that_is_missing_is_named_with_the_pip_of_this_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ConfigError) as caught:
        codec_of("zstd")
    command = install_command("zstd")
    assert shlex.split(command)[:4] == [sys.executable, "-m", "pip", "install"]
    assert str(caught.value) == f"zstd: expected the package zstandard: {command}; or use deflate"
