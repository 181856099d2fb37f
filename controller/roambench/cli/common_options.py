"""Options that many commands share: runs, `--json`, `-q` and `-v` of those that tell how their work goes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer


def _runs(named: list[Path]) -> list[Path]:
    from roambench.runs.groups import runs_at

    return runs_at(named)


RunsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN...", callback=_runs, help="Run folders; of a group, latest or a sweep all its runs."
    ),
]
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
    def told(*words: Any, quiet: bool = False, verbose: bool = False, **more: Any) -> Any:
        from roambench.runner.screen import Verbosity, tell

        if quiet and verbose:
            raise typer.BadParameter("expected one of --quiet and --verbose")
        tell(Verbosity.LITTLE if quiet else Verbosity.ALL if verbose else Verbosity.USUAL)
        try:
            return command(*words, **more)
        finally:
            tell(Verbosity.USUAL)

    found = inspect.signature(command, eval_str=True)
    told.__signature__ = found.replace(parameters=[*found.parameters.values(), *_OPTIONS])  # type: ignore[attr-defined]
    return told
