"""Questions of the server to a host's agent over SSH: `roambench-agent ctl`, JSON back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from roambench.contract.json_values import beyond_64_bits, json_or_none
from roambench.energy.readings.samples import UNUSABLE
from roambench.provision import layout
from roambench.provision.bench import Host
from roambench.provision.meter_steps import PowerSeries
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink
from roambench.provision.ssh.script import Script

#: The agent's command on a provisioned host.
AGENT: Final = f"{layout.CURRENT}/bin/roambench-agent"
_ASK: Final = Script(f'exec {AGENT} ctl "$@"')
_ASK_S: Final = 30.0
LOOK: Final = "journalctl -u roambench-agent on the host"
_SMOKE_S: Final = 150.0  # the agent itself gives up after 120 s


def ask_agent(link: HostLink, *words: str, timeout_s: float = _ASK_S) -> dict[str, Any]:
    """The agent's one answer; HostError where it does not run, refuses, or says what no agent says."""
    host = link.host.name
    ran = link.run(_ASK, *words, root=True, timeout_s=timeout_s)
    answer = json_or_none(dict[str, Any], ran.out)
    if answer is not None and "error" in answer:
        raise HostError(host, str(answer["error"])[:300])
    if ran.exit_code == 127:
        raise HostError(host, "no agent is installed", "roambench fleet provision")
    if ran.exit_code != 0 or answer is None:
        raise link.unheard(f"ctl {words[0]}: {ran.why}", LOOK)
    return answer


def ask_smoke(link: HostLink) -> dict[str, Any]:
    """The agent's smoke test, also one that failed."""
    return ask_agent(link, "smoke", timeout_s=_SMOKE_S)


def ask_burn(link: HostLink, seconds: float) -> tuple[float, float]:
    """Load the board for that long; return when that began and ended, in seconds of the host's monotonic
    clock."""
    answer = ask_agent(link, "burn", f"{seconds:g}", timeout_s=seconds + _ASK_S)
    try:
        return float(answer["began_ns"]) * 1e-9, float(answer["ended_ns"]) * 1e-9
    except (KeyError, TypeError, ValueError, OverflowError):
        raise HostError(link.host.name, "ctl burn: an answer without its times") from None


def ask_readings(link: HostLink, seconds: float, board: Host | None = None) -> tuple[float, PowerSeries]:
    """The agent's clock now, and what its meter, or that of `board`, said in the last `seconds` on that
    clock, without what is inconsistent or off."""
    whose = [board.name] if board is not None and board.name != link.host.name else []
    answer = ask_agent(link, "readings", f"{seconds:g}", *whose)
    try:
        now_s = float(answer["now_ns"]) * 1e-9
        return now_s, series_of(answer)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise HostError(link.host.name, "ctl readings: not what an agent says") from None


def series_of(answer: Mapping[str, Any]) -> PowerSeries:
    """Series of an answer of `MeterWatch.since`, without what is inconsistent or off; a KeyError, TypeError,
    ValueError or OverflowError for anything else."""
    at_ns = np.array(answer["ns"], dtype=np.int64)
    watts = np.array([np.nan if value is None else value for value in answer["watts"]], dtype=np.float64)
    flags = np.array(answer["flags"], dtype=np.int64)
    if not at_ns.shape == watts.shape == flags.shape or beyond_64_bits(answer["watts"]):
        raise ValueError
    usable = np.isfinite(watts) & ((flags & int(UNUSABLE)) == 0)
    order = np.argsort(at_ns[usable], kind="stable")
    return PowerSeries(at_ns[usable][order] * 1e-9, watts[usable][order])
