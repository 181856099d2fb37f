"""What `make setup` and `make test-setup` install by digest is what pyproject.toml asks for."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from roambench.provision.wheels.wheelhouse import read_lock

ROOT = Path(__file__).resolve().parents[2]


def test_every_requirement_is_locked_in_a_version_that_meets_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    runs, tests = locked("setup.txt"), locked("tests.txt")
    assert runs.keys() & tests.keys() == set()
    needed = (*project["dependencies"], *extras["controller"])
    for lock, texts in ((runs, needed), (runs | tests, extras["test"])):
        named = {canonicalize_name(need.name): need for need in map(Requirement, texts)}
        assert named.keys() - lock.keys() <= {"torch"}
        assert [n for n, need in named.items() if n in lock and lock[n] not in need.specifier] == []


def locked(file: str) -> dict[str, str]:
    lines = read_lock(ROOT / "packaging" / "locks" / file)
    return {name: line.split()[0].partition("==")[2] for name, line in lines.items()}


def test_what_the_site_needs_is_locked_in_the_versions_of_the_rest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    site, rest = locked("docs.txt"), locked("setup.txt") | locked("tests.txt")
    wanted = [Requirement(text) for text in project["optional-dependencies"]["docs"]]
    assert [need.name for need in wanted if site[canonicalize_name(need.name)] not in need.specifier] == []
    assert {name: site[name] for name in site.keys() & rest.keys() if site[name] != rest[name]} == {}
