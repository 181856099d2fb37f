"""Commands and exporters that `roambench.extras` and other packages add by entry points.

`roambench.commands`: the name of a point is what is typed, joined by dots (`fleet.discover`); its row is a
function that is given a Typer app and adds the command to it. `roambench.exports`: a row is the command below
`roambench export`, a function whose arguments are its options. A row is loaded when its command is asked for
or listed in a help.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_group

from roambench.cli.help_pages import with_help_page
from roambench.contract.errors import ConfigError
from roambench.contract.table import Table
from roambench.runner.harmless_print import printing_harmlessly

COMMANDS: Final[Table[Callable[[typer.Typer], None]]] = Table(
    what="command",
    group="roambench.commands",
    own={},
)
EXPORTERS: Final[Table[Callable[..., None]]] = Table(
    what="exporter",
    group="roambench.exports",
    own={},
)


class GroupCommands(UserDict[str, Any]):
    """The commands of a group by name: its own, and those that are added, each loaded once."""

    def __init__(self, own: Mapping[str, Any], added: Mapping[str, Callable[[], Any]]) -> None:
        super().__init__(own)
        self.added = {name: load for name, load in added.items() if name not in own}
        self.data.update(dict.fromkeys(self.added))

    def __getitem__(self, name: str) -> Any:
        if name in self.added:
            self.data[name] = self.added.pop(name)()
        return super().__getitem__(name)


def group_of(words: str = "") -> type[TyperGroup]:
    """The class of the group that is called by `words`, joined by dots; "" for `roambench` itself."""
    above = f"{words}." if words else ""

    def added() -> dict[str, Callable[[], Any]]:
        below = {name.removeprefix(above): name for name in COMMANDS.names() if name.startswith(above)}
        return {name: partial(_command, name, full) for name, full in below.items() if "." not in name}

    return _group(added)


def group_of_exporters() -> type[TyperGroup]:
    """The class of the group whose commands are exporters."""
    return _group(lambda: {name: partial(_exporter, name) for name in EXPORTERS.names()})


def print_harmlessly(command: Any) -> Any:
    """The command whose own text steers no terminal, with its help page; of a group all of those that are
    loaded. Help and usage are printed by typer, in colours."""
    if isinstance(command, TyperGroup):
        commands = command.commands
        added = commands.added if isinstance(commands, GroupCommands) else {}
        for name in commands.keys() - added.keys():
            print_harmlessly(commands[name])
    elif command.callback is not None:
        command.callback = printing_harmlessly()(command.callback)
    with_help_page(command)
    return command


def _group(added: Callable[[], dict[str, Callable[[], Any]]]) -> type[TyperGroup]:
    class AddedTo(TyperGroup):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            self.commands = GroupCommands(self.commands, added())

    return AddedTo


def _command(name: str, row: str) -> Any:
    app = typer.Typer()
    try:
        COMMANDS.load(row)(app)
        found = get_group(app).commands
        if name not in found:
            raise ConfigError([f"command {row!r}: expected a function that adds {name}, got {sorted(found)}"])
    except ConfigError as error:
        return _refusal(name, error)
    return print_harmlessly(found[name])


def _exporter(name: str) -> Any:
    app = typer.Typer()
    try:
        app.command(name)(EXPORTERS.load(name))
    except ConfigError as error:
        return _refusal(name, error)
    return print_harmlessly(get_group(app).commands[name])


def _refusal(name: str, error: ConfigError) -> Any:
    """The command in the place of one that cannot be loaded: the help says why, and so does calling it."""
    app = typer.Typer()
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}

    @app.command(name, help="; ".join(error.problems), context_settings=anything)
    def refuse() -> None:
        raise error

    return get_group(app).commands[name]
