"""Options that many commands share: runs, `--json`, `-q` and `-v` of those that tell how their work goes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Final, get_type_hints

import typer


def _runs(named: list[Path]) -> list[Path]:
    from roambench.runs.crates import unpacked
    from roambench.runs.groups import runs_at

    return runs_at([unpacked(path) for path in named])


RunsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN...",
        callback=_runs,
        help="Run folders; of a group, latest, a sweep or a crate all its runs.",
    ),
]


def keep_inputs(
    output: Path | None, *inputs: Path | str | None, option: str = "-o", ending: str = ".html"
) -> None:
    """ConfigError where the command would write over a file that it reads: one of `inputs`, or in a folder
    among them a file without the `ending` of what it writes. What is no path names no file."""
    from roambench.contract.errors import ConfigError
    from roambench.runs.crates import source_of

    if output is None or not output.exists():
        return
    for path in (source_of(Path(each)) for each in inputs if each):
        if not path.exists():
            continue
        within = path.is_dir() and path.resolve() in output.resolve().parents
        if path.samefile(output) or (within and output.is_file() and output.suffix.lower() != ending):
            where = f"is a file of {path}" if within else "is the same file"
            expected = "expected another file than those that the command reads"
            raise ConfigError([f"{option} {output}: {where}, {expected}"])


ONLY_HELP: Final = (
    "Only these hosts of a bench: names, tags, patterns (pi-0*), a list with commas; !pi-03 leaves one out."
)
WAIT_HELP: Final = "Wait up to this long for a bench in use."
WaitOption = Annotated[float, typer.Option("--wait", min=0.0, metavar="S", help=WAIT_HELP)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables and sentences.")]

_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
_OPTIONS: Final = [
    inspect.Parameter(
        "quiet",
        _KEYWORD,
        default=False,
        annotation=Annotated[
            bool,
            typer.Option("--quiet", "-q", help="Only print what was found, where it is, and warnings."),
        ],
    ),
    inspect.Parameter(
        "verbose",
        _KEYWORD,
        default=False,
        annotation=Annotated[
            bool,
            typer.Option("--verbose", "-v", help="Also print every order of a run and what libraries log."),
        ],
    ),
]


def with_progress(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with -q and -v: what it tells goes to a `progress_screen`."""

    @functools.wraps(command)
    def with_verbosity(*words: Any, quiet: bool = False, verbose: bool = False, **more: Any) -> Any:
        from roambench.runner.screen import Verbosity, tell

        if quiet and verbose:
            raise typer.BadParameter("expected one of --quiet and --verbose")
        tell(Verbosity.LITTLE if quiet else Verbosity.ALL if verbose else Verbosity.USUAL)
        try:
            return command(*words, **more)
        finally:
            tell(Verbosity.USUAL)

    found = inspect.signature(command, eval_str=True)
    with_verbosity.__signature__ = found.replace(parameters=[*found.parameters.values(), *_OPTIONS])  # type: ignore[attr-defined]
    return with_verbosity


def ask_sudo_password() -> None:
    """Ask for sudo's password, without an echo on a terminal; else it is the first line of the input.
    ConfigError where there is none."""
    import sys
    from getpass import getpass

    from roambench.contract.errors import ConfigError
    from roambench.provision.ssh.sudo import keep_password

    if sys.stdin.isatty():
        try:
            password = getpass("sudo password: ")
        except EOFError:
            password = ""
        expected = "a password"
    else:
        password = sys.stdin.readline().rstrip("\n")
        expected = "the password on the first line of the input, since there is no terminal to ask on"
    if not password:
        raise ConfigError([f"-K: expected {expected}"])
    keep_password(password)


SudoOption = Annotated[
    bool,
    typer.Option(
        "--ask-sudo-password",
        "-K",
        help="Ask once for the password that sudo wants; without a terminal, the input's first line.",
    ),
]


def with_sudo(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with -K."""

    @functools.wraps(command)
    def with_password(*words: Any, ask_sudo: bool = False, **more: Any) -> Any:
        if ask_sudo:
            ask_sudo_password()
        return command(*words, **more)

    found = inspect.signature(command, eval_str=True)
    asked = inspect.Parameter("ask_sudo", _KEYWORD, default=False, annotation=SudoOption)
    with_password.__signature__ = found.replace(parameters=[*found.parameters.values(), asked])  # type: ignore[attr-defined]
    return with_password


def takes_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with one option for each field of every dataclass among its parameters."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {
        each.name: each.annotation for each in parameters if is_dataclass(each.annotation)
    }

    @functools.wraps(command)
    def with_groups(**values: Any) -> Any:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name, each.default) for each in fields(group)})
        return command(**values)

    options: list[inspect.Parameter] = []
    for each in parameters:
        options += _options_of(each.annotation) if each.name in groups else [each.replace(kind=_KEYWORD)]
    with_groups.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return with_groups


def _options_of(group: Any) -> list[inspect.Parameter]:
    """One for each field of the dataclass, of the field's annotated type."""
    types = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(each.name, _KEYWORD, default=each.default, annotation=types[each.name])
        for each in fields(group)
    ]
