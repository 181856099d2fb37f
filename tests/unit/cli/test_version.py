"""The version that an installed roambench reports: from a wheel that pip built, and from the source tree."""

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import roambench.contract
from roambench.contract.sources import own_code

ROOT = Path(__file__).parents[3]


def test_a_wheel_has_the_version_at_the_top_and_all_three_parts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--no-index", "--disable-pip-version-check", "--target", str(tmp_path), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Without `site`, which would put the source tree beside it.
    asks = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import roambench, roambench.contract.errors\n"
        "import roambench.agent, roambench.cli, roambench.api as api\n"
        "assert all(map(callable, (api.load, api.run, api.sweep, api.compare)))\n"
        "print(roambench.__version__, roambench.contract.__version__, roambench.__file__)\n"
        "from roambench.contract.sources import own_code\n"
        "print(own_code())"
    )
    found = subprocess.run([sys.executable, "-S", "-c", asks], capture_output=True, text=True, check=False)
    told, own = found.stdout.splitlines()
    assert told.split() == [
        version("roambench"),
        version("roambench"),
        str(tmp_path / "roambench" / "__init__.py"),
    ], found.stderr
    # The same sources are the same code, however they were installed; a wheel has no commit.
    assert ast.literal_eval(own) == {key: own_code()[key] for key in ("version", "code")}
    templates = {
        path.name
        for path in (tmp_path / "roambench" / "report" / "templates").iterdir()
        if path.suffix != ".py"
    }
    assert templates >= {"page.html", "blocks.html", "page.css", "page.js", "pictures.html"}
    # Type checkers of those who import it believe its annotations; its licence goes with it.
    assert (tmp_path / "roambench" / "py.typed").is_file()
    assert [path.name for path in tmp_path.glob("*.dist-info/licenses/*")] == ["LICENSE"]


def copy_of_the_sources(folder: Path) -> Path:
    for part in ("protos", "agent", "controller"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def told_by(tree: Path) -> dict[str, str]:
    # Without `site`, whose .pth file would put this source tree before it.
    paths = [*(str(tree / part) for part in ("protos", "agent", "controller")), sysconfig.get_path("purelib")]
    asks = (
        f"import sys; sys.path[:0] = {paths!r}\n"
        "from roambench.contract.sources import own_code; print(dict(own_code()))"
    )
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-S", "-c", asks], env=bare, capture_output=True, text=True, check=True
    )
    found: dict[str, str] = ast.literal_eval(done.stdout)
    return found


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_two_commits_of_one_version_are_told_apart(tmp_path: Path) -> None:
    """A real work tree: committed, edited, and out of git."""

    def git(*words: str) -> str:
        own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(tree), *own, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    tree = copy_of_the_sources(tmp_path)
    without = told_by(tree)
    assert "commit" not in without
    assert without["code"] == own_code()["code"]
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    committed = told_by(tree)
    assert committed == without | {"commit": git("rev-parse", "HEAD")}
    with (tree / "controller" / "roambench" / "energy" / "comparison" / "verdict.py").open("a") as file:
        file.write("# edited\n")
    edited = told_by(tree)
    assert edited["commit"] == committed["commit"] + "+changes"
    assert edited["code"] != committed["code"]
    assert edited["version"] == committed["version"]


def test_the_source_tree_has_it_as_a_wheel_has() -> None:
    assert roambench.__version__ == roambench.contract.__version__ == version("roambench")


def test_who_cites_it_cites_the_version_that_is_released() -> None:
    released = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == released
