"""`roambench fleet`: the hosts of a bench, from bare SD cards to a proven bench."""

from __future__ import annotations

import typer

from roambench.cli.added import group_of
from roambench.cli.fleet import certs as fleet_certs
from roambench.cli.fleet import change as fleet_change
from roambench.cli.fleet import fetch as fleet_fetch
from roambench.cli.fleet import influx as fleet_influx
from roambench.cli.fleet import lease as fleet_lease
from roambench.cli.fleet import list as fleet_list
from roambench.cli.fleet import power as fleet_power
from roambench.cli.fleet import prove as fleet_prove
from roambench.cli.fleet import provision as fleet_provision
from roambench.cli.fleet import shell as fleet_shell
from roambench.cli.fleet import status as fleet_status

fleet_app = typer.Typer(
    name="fleet",
    cls=group_of("fleet"),
    help="Benches of real hosts: list, provision, operate, prove.",
    no_args_is_help=True,
)
fleet_list.register(fleet_app)
fleet_provision.register(fleet_app)
fleet_certs.register(fleet_app)
fleet_influx.register(fleet_app)
fleet_prove.register(fleet_app)
fleet_lease.register(fleet_app)
fleet_status.register(fleet_app)
fleet_shell.register(fleet_app)
fleet_power.register(fleet_app)
fleet_fetch.register(fleet_app)
fleet_change.register(fleet_app)
