"""`roambench fleet`: the hosts of a bench, from bare SD cards to a proven bench."""

from __future__ import annotations

import typer

from roambench.controller.commands import (
    fleet_certs,
    fleet_change,
    fleet_discover,
    fleet_fetch,
    fleet_image,
    fleet_influx,
    fleet_interop,
    fleet_lease,
    fleet_list,
    fleet_power,
    fleet_prove,
    fleet_provision,
    fleet_shell,
    fleet_status,
    fleet_switches,
    fleet_verify,
)

fleet_app = typer.Typer(
    name="fleet", help="Benches of real hosts: list, provision, operate, prove.", no_args_is_help=True
)
fleet_list.register(fleet_app)
fleet_image.register(fleet_app)
fleet_discover.register(fleet_app)
fleet_interop.register(fleet_app)
fleet_provision.register(fleet_app)
fleet_certs.register(fleet_app)
fleet_influx.register(fleet_app)
fleet_prove.register(fleet_app)
fleet_verify.register(fleet_app)
fleet_lease.register(fleet_app)
fleet_status.register(fleet_app)
fleet_shell.register(fleet_app)
fleet_power.register(fleet_app)
fleet_switches.register(fleet_app)
fleet_fetch.register(fleet_app)
fleet_change.register(fleet_app)
