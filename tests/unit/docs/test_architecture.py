"""docs/architecture.md: every name of the source that it gives is there, and its walks count their files."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from source_names import is_there, module_of, packages

PAGE = (Path(__file__).parents[3] / "docs" / "architecture.md").read_text("utf-8")


def names(text: str) -> list[str]:
    """`package.module` and what stands behind it, for packages of roambench."""
    dotted = re.findall(r"`(\w+(?:\.\w+)+)`", text)
    return [name for name in dotted if name.partition(".")[0] in packages()]


def walk(title: str) -> tuple[str, str]:
    """The heading that begins with `title`, and what stands below it up to the next one."""
    starts = [match.start() for match in re.finditer(r"^##+ ", PAGE, re.MULTILINE)]
    (found,) = [
        PAGE[i:j] for i, j in pairwise([*starts, len(PAGE)]) if PAGE[i:j].lstrip("# ").startswith(title)
    ]
    heading, _, body = found.partition("\n")
    return heading, body


def files(*texts: str) -> int:
    return len({module_of(name) for text in texts for name in names(text)})


def numbers(heading: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", heading)]


def test_every_name_is_there() -> None:
    assert len(names(PAGE)) > 100
    assert [name for name in names(PAGE) if not is_there(name)] == []


@pytest.mark.parametrize("name", ["spool.spool.Spool.appended", "spool.spoon", "spool.spool.append", "spoon"])
def test_a_name_that_is_not_there_is_found_out(name: str) -> None:
    assert is_there("spool.spool.Spool.append")
    assert not is_there(name)


def test_the_walk_of_a_reading_counts_its_files() -> None:
    heading, body = walk("A meter line to a joule")
    assert numbers(heading) == [files(body)]


def test_the_walk_of_an_experiment_counts_its_files() -> None:
    heading, body = walk("An experiment file to an aggregated model")
    everywhere, rest = body.split("Agents, on this machine")
    agents, virtual = rest.split("Virtual devices:")
    assert numbers(heading) == [files(everywhere, agents), files(everywhere, virtual)]


def test_the_walk_of_provision_counts_its_files() -> None:
    heading, body = walk("`fleet provision`")
    subjects = [name for name in names(body) if name.startswith("provision.subjects.")]
    assert numbers(heading) == [files(body) - len(subjects), len(subjects)]
