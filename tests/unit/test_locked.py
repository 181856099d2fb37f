"""What `make setup` installs by digest is what pyproject.toml asks for."""

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
    lock = {name: line.split()[0].partition("==")[2] for name, line in read_lock(ROOT / "locked.txt").items()}
    wanted = [
        Requirement(text) for text in (*project["dependencies"], *extras["controller"], *extras["test"])
    ]
    named = {canonicalize_name(need.name): need for need in wanted}
    assert sorted(named.keys() - lock.keys()) == ["torch"]
    assert [name for name, need in named.items() if name in lock and lock[name] not in need.specifier] == []


def test_what_the_site_needs_is_locked_in_the_versions_of_the_rest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    site, rest = (
        {name: line.split()[0].partition("==")[2] for name, line in read_lock(ROOT / file).items()}
        for file in ("docs.txt", "locked.txt")
    )
    wanted = [Requirement(text) for text in project["optional-dependencies"]["docs"]]
    assert [need.name for need in wanted if site[canonicalize_name(need.name)] not in need.specifier] == []
    assert {name: site[name] for name in site.keys() & rest.keys() if site[name] != rest[name]} == {}
