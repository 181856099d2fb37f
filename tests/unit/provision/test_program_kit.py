"""A program's kit: the same digest for the same files, and one kit a bench."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError
from roambench.provision.wheels.program_kit import KitSpec, ProgramKit, keep_kit, kept_kit, packed

SPEC = KitSpec("flower", "quick", "1.0", ("flwr",), ("flwr",), "packaging/flower.txt", "check")


def test_the_digest_follows_names_contents_and_needs_and_nothing_else(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        (folder / "mine").mkdir(parents=True)
        (folder / "mine/a.py").write_text("a")
    (two / "mine/a.py").chmod(0o755)
    first, same = (ProgramKit(SPEC, packed(each, each.rglob("*.py"))) for each in (one, two))
    assert first.digest == same.digest
    (two / "mine/a.py").write_text("b")
    edited = ProgramKit(SPEC, packed(two, two.rglob("*.py")))
    assert len({first.digest, edited.digest, replace(first, spec=replace(SPEC, version="2")).digest}) == 3


def test_what_is_too_large_to_be_code_is_named(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_bytes(bytes(17 * 2**20))
    with pytest.raises(ConfigError, match=r"larger than 16 MiB with data\.json"):
        packed(tmp_path, tmp_path.iterdir())


def test_a_bench_keeps_one_kit_until_another_takes_its_place(tmp_path: Path) -> None:
    assert kept_kit(tmp_path) is None
    for kit in (ProgramKit(SPEC, b"one"), ProgramKit(replace(SPEC, program="other"), b"two")):
        keep_kit(tmp_path, kit)
        assert kept_kit(tmp_path) == kit
    keep_kit(tmp_path, None)
    assert kept_kit(tmp_path) is None
