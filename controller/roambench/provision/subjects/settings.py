"""The agent's settings: its file, and the token with which it may only write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roambench.agent.settings import AgentSettings, HostSettings, MeterSettings
from roambench.contract.addresses import host_port
from roambench.provision import layout
from roambench.provision.bench import Bench, Host
from roambench.provision.facts import Facts
from roambench.provision.ssh.script import Script
from roambench.provision.step import HostStep, RemoteFile, Skip, differing
from roambench.provision.wanted import Wanted


def settings(facts: Facts, wanted: Wanted) -> Iterator[HostStep | Skip]:
    """Steps that write the agent's settings."""
    text = agent_settings(wanted.bench, wanted.host, facts).to_json() + "\n"
    owner = f"root:{layout.USER}"
    files = [RemoteFile(layout.SETTINGS, text.encode(), 0o640, owner)]
    if wanted.influx_token is not None:
        files.append(RemoteFile(layout.TOKEN, wanted.influx_token, 0o640, owner, secret=True))
    differ, reason = differing(facts, files)
    if differ:
        yield HostStep("settings", reason, files=differ, restarts=True)
    if wanted.influx_token is None and facts.files.get(layout.TOKEN) is not None:
        yield HostStep("settings", f"{layout.TOKEN} is of no use any more", Script(f"rm -f {layout.TOKEN}"))


def agent_settings(bench: Bench, host: Host, facts: Facts) -> AgentSettings:
    """A service that dials this bench's controller."""
    influxdb = bench.influxdb
    if influxdb is not None:
        influxdb = replace(influxdb, token_file=layout.TOKEN if influxdb.token_file else "", token_env="")
    return AgentSettings(
        device=host.name,
        controller=host_port(bench.controller.address, bench.controller.control_port),
        identity_dir=layout.IDENTITY,
        state_dir=layout.STATE,
        machine_id=host.machine_id,
        meter=MeterSettings() if host.reader != host.name else host.meter.settings,
        neighbours={other.name: other.meter.settings for other in bench.read_by(host)},
        host=HostSettings(interface=host.interface, vcgencmd=facts.vcgencmd),
        influxdb=influxdb,
        ctl_socket=layout.CTL_SOCKET,
    )
