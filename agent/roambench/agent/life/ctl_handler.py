"""The control socket's questions and the agent's answers: bounded, and never in a measured phase where it
would cost power.

status                  who it is, its run, spool, meter, clock and board
readings SECONDS [BOARD]
                        what the meter (of the neighbour BOARD) said in the last SECONDS: stamps, volts, amps,
                        watts and flags
smoke                   one SGD step in the trainer's process
burn SECONDS [CORES [PERIOD]]
                        compute on all cores (or CORES) and do nothing else: `roambench fleet identify`; with
                        PERIOD (s) on and off in turns, half of it each: `roambench fleet verify`
spool-export [RUN]      every record that the controller has yet to get, as JSON lines, with an end line
spool-forget RUN        that finished run's records are kept elsewhere now
spool-dead [RUN]        every record that a store refused for good, and why, as JSON lines
spool-revive [RUN]      put them among the records that the controller has yet to get
end-run                 leave the run whose controller is gone
taken WHO               WHO has taken the board for another bench: say so to the controller, leave its run
"""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from roambench.agent.life.burning import Burner
from roambench.agent.orders.program_host import confines
from roambench.agent.orders.worker import TrainerDied, TrainerRefused, rss_bytes
from roambench.agent.readings.host_metrics import HostMetrics

if TYPE_CHECKING:  # it holds grpc, and fork servers import this module before they fork
    from roambench.agent.life.session import AgentSession

ASKS: Final = (
    "status",
    "readings",
    "smoke",
    "burn",
    "spool-export",
    "spool-forget",
    "spool-dead",
    "spool-revive",
    "end-run",
    "taken",
)
_SMOKE_PATIENCE_S: Final = 120.0
_MOST_LETTERS: Final = 200


@dataclass(slots=True)
class CtlHandler:
    """Answers `ctl_server`."""

    session: AgentSession
    host: HostMetrics
    burner: Burner

    async def answer(self, request: Mapping[str, Any]) -> AsyncIterator[str]:
        """The answer's lines. ValueError for what cannot be asked, or not now."""
        words = request.get("words", [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError("words: expected a list of words")
        match request.get("ask"):
            case "status":
                yield json.dumps(self.status())
            case "readings":
                yield json.dumps(self._readings(words))
            case "smoke":
                yield json.dumps(await self._smoke())
            case "burn":
                self._only_between_runs("burn")
                yield json.dumps(await self.burner.burn(words))
            case "spool-export":
                async for line in self._export(words[0] if words else None):
                    yield line
            case "spool-forget":
                if len(words) != 1:
                    raise ValueError("spool-forget: expected the run")
                forgotten = [part.unsent.forget(words[0]) for part in self.session.meter.parts]
                yield json.dumps({"forgotten": any(forgotten)})
            case "spool-dead":
                of = words[0] if words else None
                parts = self.session.meter.parts
                for letter in (one for part in parts for one in part.spool.dead_letters(of)):
                    yield json.dumps(
                        {
                            "run": letter.run,
                            "store": letter.consumer,
                            "spool_uuid": letter.spool_uuid,
                            "seq": letter.seq,
                            "kind": letter.kind.name.lower(),
                            "error": letter.error,
                        }
                    )
            case "spool-revive":
                of = words[0] if words else None
                revived = sum(part.unsent.revive(of) for part in self.session.meter.parts)
                yield json.dumps({"revived": revived})
            case "end-run":
                run = self.session.about()["run"]
                if run:
                    await self.session.leave("asked to end the run", None)
                yield json.dumps({"ended": run})
            case "taken":
                if len(words) != 1:
                    raise ValueError("taken: expected who has taken the board")
                yield json.dumps({"ended": await self.session.taken(words[0][:_MOST_LETTERS])})
            case other:
                raise ValueError(f"unknown request {other!r}: expected one of {', '.join(ASKS)}")

    def status(self) -> dict[str, Any]:
        """Everything that a live table shows, JSON-ready: what is unknown is null."""
        now_ns = self.session.meter.clock.now_ns()
        disk = shutil.disk_usage(self.session.settings.state_dir)
        return {
            **self.session.about(),
            "rss_bytes": rss_bytes(),
            "confines_programs": confines(),
            "clock": {"monotonic_ns": now_ns, "unix_s": time.time()},
            "spool": {
                name: {
                    "depth": queue.depth,
                    "dropped": queue.dropped,
                    "dead": queue.dead,
                    "oldest_age_s": round(queue.oldest_age_s, 1),
                }
                for name, queue in self.session.meter.spool.consumers.items()
            },
            "dropped_between_runs": sum(part.unsent.dropped for part in self.session.meter.parts),
            "unsent_runs": self.session.meter.unsent_runs,
            "meter": self.session.meter.watch.status(now_ns),
            "neighbours": {one.name: one.watch.status(now_ns) for one in self.session.meter.neighbours},
            "host": _known(asdict(self.host.sample(now_ns))),
            "disk": {"total_bytes": disk.total, "free_bytes": disk.free},
        }

    def _readings(self, words: list[str]) -> dict[str, Any]:
        now_ns = self.session.meter.clock.now_ns()
        try:
            since_ns = now_ns - round(float(words[0]) * 1e9)
        except (IndexError, ValueError, OverflowError):
            raise ValueError("readings: expected SECONDS") from None
        meter = self.session.meter
        watches = {"": meter.watch, **{one.name: one.watch for one in meter.neighbours}}
        board = words[1] if len(words) > 1 else ""
        if board not in watches:
            raise ValueError(f"readings: this agent reads no meter of {board[:_MOST_LETTERS]!r}")
        return {"now_ns": now_ns, **watches[board].since(since_ns)}

    async def _smoke(self) -> dict[str, Any]:
        self._only_between_runs("smoke")
        try:
            async with asyncio.timeout(_SMOKE_PATIENCE_S):
                return {"ok": True, **await self.session.trainer.worker.smoke()}
        except (TrainerDied, TrainerRefused) as error:
            return {"ok": False, "reason": str(error)}
        except TimeoutError:
            reason = f"no answer of the trainer within {_SMOKE_PATIENCE_S:.0f} s"
            return {"ok": False, "reason": f"{reason}; a slow card may still read torch: ask again"}

    async def _export(self, run: str | None) -> AsyncIterator[str]:
        count = malformed = 0
        for line in (line for part in self.session.meter.parts for line in part.unsent.export(run)):
            if line is None:
                malformed += 1
            else:
                yield line
                count += 1
            if (count + malformed) % 500 == 0:
                await asyncio.sleep(0)  # orders and answers are this loop's, too
        yield json.dumps({"end": count, "malformed": malformed, "device": self.session.settings.device})

    def _only_between_runs(self, what: str) -> None:
        run = self.session.about()["run"]
        if run:
            raise ValueError(f"{what}: this device takes part in run {run}; it would cost joules there")


def _known(values: dict[str, Any]) -> dict[str, Any]:
    """NaN and -1 mean that the board does not say."""
    return {
        name: None if value == -1 or (isinstance(value, float) and math.isnan(value)) else value
        for name, value in values.items()
    }
