"""All that is found of a host before a run: its own facts, its agent's answers, and its clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roambench.contract.errors import ConfigError
from roambench.provision.facts import Facts
from roambench.provision.power.switching import NOT_ASKED, SeenSwitch


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """The host's clock minus this machine's, from the quickest of several exchanges; it lies within
    `bound_s` on either side."""

    offset_s: float
    bound_s: float

    @property
    def worst_s(self) -> float:
        """The largest offset that the measurement allows, in seconds."""
        return abs(self.offset_s) + self.bound_s


def offset_words(offset_s: float, bound_s: float) -> str:
    """ "+3 ± 20 ms"; of a clock that was never set "-20,788.2 days"."""
    if abs(offset_s) < 100.0:
        return f"{1e3 * offset_s:+.0f} ± {1e3 * bound_s:.0f} ms"
    return f"{offset_s / 86_400:+,.1f} days" if abs(offset_s) > 86_400 else f"{offset_s:+,.0f} s"


def clock_offset(exchanges: list[tuple[float, float, float]]) -> ClockOffset:
    """Return the offset by exchanges (asked, the host's time, answered), the one with the shortest way;
    ValueError without."""
    asked, there, answered = min(exchanges, key=lambda exchange: exchange[2] - exchange[0])
    return ClockOffset(there - (asked + answered) / 2.0, (answered - asked) / 2.0)


@dataclass(frozen=True, slots=True)
class AgentAnswers:
    """Answers of the host's agent by `ctl`; without them `reason` says why."""

    build: str = ""
    run: str = ""
    ended_run: str = ""  # the one that it was in without a controller, until just now
    meter_state: str = ""
    meter_detail: str = ""  # why it is unavailable or lost, as the agent says
    meter_settings: str = ""  # of its chip, where the kernel has them
    meter_age_s: float | None = None
    idle_watts: float | None = None  # median of the last readings before the probe
    smoke_ok: bool | None = None  # None: not asked
    smoke: str = ""
    confines_programs: bool | None = None  # None: an older agent does not say
    reason: str = ""

    @classmethod
    def of(
        cls, status: Mapping[str, Any], smoke: Mapping[str, Any] | None, idle_watts: float | None
    ) -> AgentAnswers:
        """From the JSON answers; ConfigError for what is none of an agent."""
        try:
            meter = status["meter"]
            last = meter["last"] or {}
            about = meter.get("description") or {}
            return cls(
                build=str(status["build"]),
                run=str(status["run"]),
                meter_state=str(meter["state"]),
                meter_detail=str(meter.get("detail", ""))[:300],
                meter_settings=str(about.get("settings", ""))[:300],
                meter_age_s=_number(last.get("age_s")),
                idle_watts=idle_watts,
                smoke_ok=None if smoke is None else bool(smoke.get("ok")),
                smoke="" if smoke is None else _smoked(smoke),
                confines_programs=said if isinstance(said := status.get("confines_programs"), bool) else None,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ConfigError([f"ctl status: not what an agent says ({error!r})"]) from None


@dataclass(frozen=True, slots=True)
class Seen:
    """All that was found of one host. `facts` and `clock` are None where `reason` says why.

    `autorun`: whether its meter's output comes back on after the meter's reset; text says why it is unknown.
    `claimed_by`: the other bench that has the board; "" for none. `peers`: for each other host why its
    address does not answer from here, "" where it does; None: not asked.
    """

    facts: Facts | None
    clock: ClockOffset | None
    agent: AgentAnswers
    reason: str = ""
    next_action: str = ""
    autorun: bool | str = "not asked"
    switch: SeenSwitch = NOT_ASKED
    claimed_by: str = ""
    peers: Mapping[str, str] | None = None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _smoked(smoke: Mapping[str, Any]) -> str:
    if not smoke.get("ok"):
        return str(smoke.get("reason") or smoke.get("error") or "no reason given")[:300]
    return ", ".join(f"{key} {value}" for key, value in smoke.items() if key != "ok")[:200]
