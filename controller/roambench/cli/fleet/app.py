"""`roambench fleet`: the hosts of a bench, from bare SD cards to a proven bench."""

from __future__ import annotations

import typer

from roambench.cli.added import group_of
from roambench.cli.common_options import with_progress, with_sudo
from roambench.cli.fleet.certs import certs_app
from roambench.cli.fleet.change import replace, upgrade_hosts
from roambench.cli.fleet.fetch import fetch
from roambench.cli.fleet.influx import influx_token
from roambench.cli.fleet.lease import lease, release, who
from roambench.cli.fleet.list import list_hosts
from roambench.cli.fleet.power import power
from roambench.cli.fleet.prove import identify, preflight
from roambench.cli.fleet.provision import provision_hosts, roll_back, unprovision_hosts, wheelhouse
from roambench.cli.fleet.shell import execute, logs, reboot_hosts
from roambench.cli.fleet.status import status

fleet_app = typer.Typer(
    name="fleet",
    cls=group_of("fleet"),
    help="Benches of real hosts: list, provision, operate, prove.",
    no_args_is_help=True,
)
fleet_app.command("list")(list_hosts)
fleet_app.command("provision")(with_sudo(with_progress(provision_hosts)))
fleet_app.command("wheelhouse")(wheelhouse)
fleet_app.command("rollback")(with_sudo(roll_back))
fleet_app.command("unprovision")(with_sudo(unprovision_hosts))
fleet_app.add_typer(certs_app)
fleet_app.command("influx-token")(influx_token)
fleet_app.command("preflight")(with_sudo(preflight))
fleet_app.command("identify")(with_sudo(with_progress(identify)))
fleet_app.command("lease")(lease)
fleet_app.command("release")(release)
fleet_app.command("who")(who)
fleet_app.command("status")(with_sudo(status))
fleet_app.command("logs")(with_sudo(logs))
fleet_app.command("exec")(with_sudo(execute))
fleet_app.command("reboot")(with_sudo(reboot_hosts))
fleet_app.command("power")(with_sudo(power))
fleet_app.command("fetch")(with_sudo(fetch))
fleet_app.command("upgrade")(with_sudo(with_progress(upgrade_hosts)))
fleet_app.command("replace")(with_sudo(with_progress(replace)))
