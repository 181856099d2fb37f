"""The `roambench` command. Every error a user can meet ends here as one line, never as a traceback."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Final, cast

try:
    import typer
    from typer.core import TyperGroup
    from typer.main import get_command

    from roambench.cli.ab import ab
    from roambench.cli.added import group_of, group_of_exporters, print_harmlessly
    from roambench.cli.calibrate import calibrate
    from roambench.cli.campaign import campaign
    from roambench.cli.check import check
    from roambench.cli.common_options import with_progress, with_sudo
    from roambench.cli.compare import compare
    from roambench.cli.data import data_app
    from roambench.cli.demo import demo
    from roambench.cli.figures import figures
    from roambench.cli.fleet.app import fleet_app
    from roambench.cli.init import init
    from roambench.cli.list_rows import list_rows
    from roambench.cli.meters.app import meter_app
    from roambench.cli.overhead import overhead
    from roambench.cli.pause import pause, resume_replay
    from roambench.cli.report import report
    from roambench.cli.resume import resume
    from roambench.cli.run import run
    from roambench.cli.runs import runs
    from roambench.cli.sweep import sweep
    from roambench.cli.traces.app import trace_app
    from roambench.cli.watch import watch
    from roambench.contract.errors import RoambenchError
    from roambench.contract.printable import for_terminal
    from roambench.contract.sources import own_code
    from roambench.runner.stopping import leave, signals_heeded
    from roambench.study.command_process import settle
except KeyboardInterrupt:  # all this takes half a second to read
    sys.exit(130)

app = typer.Typer(
    name="roambench",
    cls=group_of(),
    help="Benches for mobile federated learning that account for every joule.",
    epilog="A first run: roambench demo    Who would train: --fleet rehearsal    What it takes: --plan",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


export_app = typer.Typer(
    name="export", cls=group_of_exporters(), help="Runs in the formats of other tools.", no_args_is_help=True
)

#: Panels of the help, in the order in which their first command stands below.
_RUN, _LOOK, _BENCH, _DATA = "Run", "Look", "Benches and meters", "Data and movement"


_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE)


def _version(asked: bool) -> None:
    if asked:
        own = own_code()
        text = ", ".join(f"{what} {value}" for what, value in own.items() if what != "version")
        typer.echo(f"roambench {own['version']} ({text})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


@app.command("help", hidden=True)
def help_(
    words: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND...]", help="A command.")] = None,
) -> None:
    """Print the help of a command, as COMMAND --help does."""
    command()(args=[*(words or []), "--help"], prog_name="roambench")


@app.command("version", hidden=True)
def version_() -> None:
    """Print the version, as --version does."""
    _version(asked=True)


app.command(rich_help_panel=_RUN)(with_progress(demo))
app.command(rich_help_panel=_RUN)(init)
app.command(rich_help_panel=_RUN)(with_progress(run))
app.command(rich_help_panel=_RUN)(with_sudo(with_progress(resume)))
app.command(rich_help_panel=_RUN)(pause)
app.command("resume-replay", rich_help_panel=_RUN)(resume_replay)
app.command(rich_help_panel=_RUN)(with_progress(sweep))
app.command(rich_help_panel=_RUN)(with_progress(ab))
app.command(rich_help_panel=_LOOK)(campaign)
app.command(rich_help_panel=_LOOK)(watch)
app.command(rich_help_panel=_LOOK)(runs)
app.command(rich_help_panel=_LOOK)(report)
app.command(rich_help_panel=_LOOK)(figures)
app.command(rich_help_panel=_BENCH)(with_progress(overhead))
app.command(rich_help_panel=_LOOK)(compare)
app.command(rich_help_panel=_LOOK)(check)
app.command(rich_help_panel=_BENCH)(with_progress(calibrate))
app.command("list", rich_help_panel=_LOOK)(list_rows)
app.add_typer(data_app, rich_help_panel=_DATA)
app.add_typer(export_app, rich_help_panel=_LOOK)
app.add_typer(trace_app, rich_help_panel=_DATA)
app.add_typer(meter_app, rich_help_panel=_BENCH)
app.add_typer(fleet_app, rich_help_panel=_BENCH)


def _is_the_machines(error: BaseException) -> bool:
    """Return whether it comes from a full disk or from descriptors that are all in use: no input is wrong
    then."""
    link: BaseException | None = error
    while link is not None:
        if (isinstance(link, OSError) and link.errno in _FULL) or "(os error 28)" in str(
            link
        ):  # safetensors'
            return True
        link = link.__cause__ or link.__context__
    return False


def _blame(end: SystemExit) -> str:
    """The sentence about another package's code that ended this process; "" where it was a command's end."""
    code = sys.modules.get("roambench.runner.foreign_code")  # loaded by what runs such code
    return "" if code is None else str(code.blame(end))


@cache
def command() -> TyperGroup:
    """All commands and their options; those of `roambench.extras` and other packages are loaded when they are
    asked for. Read once per process: it takes 0.1 s."""
    found = cast(TyperGroup, get_command(app))
    print_harmlessly(found)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 the user's input is wrong; 130 interrupted by
    Ctrl-C, 143 by SIGTERM, 129 by SIGHUP."""
    if arguments is None:  # called as a function, the process is not the command's own
        settle()
    with signals_heeded():
        try:
            command()(args=arguments, prog_name="roambench")
        except RoambenchError as error:
            for line in str(error).splitlines():
                print(for_terminal(f"roambench: {line}"), file=sys.stderr)
            sys.exit(1 if _is_the_machines(error) else error.exit_code)
        except KeyboardInterrupt:
            sys.exit(leave())
        except SystemExit as end:  # typer makes 130 of every interruption
            if sentence := _blame(end):
                print(for_terminal(f"roambench: {sentence}"), file=sys.stderr)
                sys.exit(1)
            sys.exit(leave() if end.code == 130 else end.code)
        except Exception as error:
            if isinstance(error.__cause__, KeyboardInterrupt):  # a class is made, and it met a __set_name__
                sys.exit(leave())
            from roambench.runner.foreign_code import blame
            from roambench.runner.run_log import keep_traceback, mistake

            sentence = blame(error) or mistake(error)
            text = f"roambench: {sentence}; the traceback is in {keep_traceback(error)}"
            print(for_terminal(text), file=sys.stderr)
            sys.exit(1)


if __name__ == "__main__":
    main()
