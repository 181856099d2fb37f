"""The way of all models for a `Workplace` that never has to dial again."""

from __future__ import annotations

from dataclasses import dataclass

from roambench.agent.session.data_link import DataLink


@dataclass
class FixedDial:
    link: DataLink | None = None

    @property
    def session(self) -> DataLink:
        assert self.link is not None
        return self.link

    async def connected(self, limit_s: float) -> None:
        pass

    def redial(self) -> None:
        pass
