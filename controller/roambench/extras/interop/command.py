"""`roambench fleet import` and `export`: benches in the words of other tools."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from roambench.cli.common_options import JsonOption, keep_inputs
from roambench.cli.fleet.options import BenchArgument
from roambench.contract.counts import count
from roambench.contract.extra_packages import install_command


class Tool(StrEnum):
    """The tool that a file belongs to."""

    ANSIBLE = "ansible"
    LABGRID = "labgrid"


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    app.command("import")(import_bench)
    app.command("export")(export_bench)


def import_bench(
    tool: Annotated[Tool, typer.Argument(help="Whose file it is.")],
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="An Ansible inventory, or what `ansible-inventory --list` printed (.json); an exporter's "
            "configuration of labgrid.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The bench description, a new file.")
    ],
    group: Annotated[str, typer.Option("--group", help="Of Ansible: only this group's hosts.")] = "all",
    places: Annotated[
        Path | None,
        typer.Option("--places", metavar="FILE", help="Of labgrid: the coordinator's places.yaml."),
    ] = None,
    controller: Annotated[
        str,
        typer.Option(
            "--controller",
            metavar="ADDRESS",
            help="What boards dial; default: this machine, as they see it.",
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Make a bench description of hosts that Ansible or labgrid knows. No host is asked anything.

    Examples:
        roambench fleet import ansible hosts.yml -o bench.toml
        roambench fleet import labgrid exporter.yaml -o bench.toml
    """
    from roambench.cli.fleet.outcome_table import write_out
    from roambench.contract.errors import ConfigError
    from roambench.extras.discovery.searching import seen_from
    from roambench.extras.interop.ansible import listed, read_ansible
    from roambench.extras.interop.foreign import bench_text
    from roambench.runner.screen import print_json

    problems = []
    if out.exists():
        problems.append(f"--output {out}: is there already, expected a new file")
    if tool is Tool.ANSIBLE and places is not None:
        problems.append("--places: expected with labgrid only")
    if tool is Tool.LABGRID and group != "all":
        problems.append("--group: expected with ansible only")
    if problems:
        raise ConfigError(problems)
    if tool is Tool.ANSIBLE:
        found = read_ansible(listed(source), str(source), group)
    else:
        try:
            from roambench.extras.interop.labgrid import read_labgrid
        except ImportError:
            raise ConfigError([f"labgrid's files are YAML: {install_command('labgrid')}"]) from None
        found = read_labgrid(source, places)
    first = str(found.hosts[0].table["address"]) if found.hosts else "127.0.0.1"
    try:
        controller = controller or found.controller or seen_from(first)
    except OSError as error:
        reason = f"how {first} sees this machine is unknown ({error.strerror})"
        raise ConfigError([f"--controller: expected an address: {reason}"]) from None
    text = bench_text(found, str(source), controller)
    write_out(out, text)
    if as_json:
        notes = {str(host.table["name"]): list(host.notes) for host in found.hosts}
        print_json({"file": out, "hosts": notes, "left_out": list(found.left_out)})
        return
    for line in found.left_out:
        print(f"left out: {line}")
    for host in found.hosts:
        for note in host.notes:
            print(f"{host.table['name']}: {note}")
    command = f"roambench fleet list {shlex.quote(str(out))}"
    print(f"{count(len(found.hosts), 'host')} in {out}: look at it, then {command}")


def export_bench(
    bench: BenchArgument,
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The inventory, as hosts.yml.")],
) -> None:
    """Write the bench as an Ansible inventory: its tags are groups, its meters variables of their hosts.

    Examples:
        roambench fleet export bench.toml -o hosts.yml
        roambench fleet export inventory/bench36.toml -o hosts.yml
    """
    from roambench.cli.fleet.outcome_table import write_out
    from roambench.extras.interop.ansible import ansible_inventory
    from roambench.provision.inventory.load import load_bench

    keep_inputs(out, bench)
    text = ansible_inventory(load_bench(bench))
    write_out(out, text)
    print(f"{out}: ansible -i {out} all -m ping")
