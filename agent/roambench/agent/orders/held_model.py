"""The model that a device of a decentralised run holds, kept through its agent's death."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from roambench.agent.orders.model_cache import key_of
from roambench.contract.json_values import kept_in
from roambench.contract.whole_file import sync, write_whole

_DESCRIPTION = "held.json"


@dataclass(frozen=True, slots=True)
class HeldDescription:
    """Description of a held model, in `held.json`: `answer` in hex, `model` and `velocity` are files beside
    it."""

    run_id: str
    order_id: str
    digest: str
    answer: str
    model: str
    velocity: str


@dataclass(frozen=True, slots=True)
class MixedModel:
    """The mixed model that exchange order `order_id` of `run_id` left, and SGD's velocity that goes with it.

    `answer` is the order's serialised answer, should its sending have been cut short. `velocity` is None
    where training keeps none.
    """

    run_id: str
    order_id: str
    digest: str
    answer: bytes
    model: Path
    velocity: Path | None


class HeldModel:
    """One model at most, in `folder`.

    Blob and velocity are synced before the description is renamed into place: the agent comes back with the
    model and the velocity of one and the same exchange, whichever process dies when.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.start = folder / "start.blob"
        self.half_step = folder / "half-step.blob"

    def velocity_draft(self, order_id: str) -> Path:
        """Return where the trainer writes the velocity of the half step of `order_id`."""
        return self._folder / f"velocity-{key_of(order_id)}.blob"

    def of_run(self, run_id: str) -> MixedModel | None:
        """The model held in that run; one of another run counts as none."""
        held = self.last()
        return held if held is not None and held.run_id == run_id else None

    def last(self) -> MixedModel | None:
        """The model held, whichever run it is of; a damaged one counts as none."""
        found = kept_in(HeldDescription, self._folder / _DESCRIPTION)
        if found is None:
            return None
        try:
            held = MixedModel(
                run_id=found.run_id,
                order_id=found.order_id,
                digest=found.digest,
                answer=bytes.fromhex(found.answer),
                model=self._folder / _plain(found.model),
                velocity=self._folder / _plain(found.velocity) if found.velocity else None,
            )
        except ValueError:
            return None
        whole = held.model.exists() and (held.velocity is None or held.velocity.exists())
        return held if whole else None

    def clear(self) -> None:
        """Hold nothing any more: the run is over."""
        (self._folder / _DESCRIPTION).unlink(missing_ok=True)
        for blob in self._folder.glob("*.blob"):
            blob.unlink()

    def files(self) -> list[Path]:
        """The model held and what goes with it, for a `ResumePoint`."""
        held = self.last()
        if held is None:
            return []
        kept = [held.model, self._folder / _DESCRIPTION]
        return kept if held.velocity is None else [held.velocity, *kept]

    def put_back(self, folder: Path) -> None:
        """Hold again what `files` were when they were linked into `folder`."""
        self.clear()
        for file in sorted(folder.iterdir(), key=lambda file: file.name == _DESCRIPTION):
            os.link(file, self._folder / file.name)
        sync(self._folder)

    def keep(self, run_id: str, order_id: str, blob: bytes, digest: str, answer: bytes) -> None:
        """Hold `blob` from now on, with the velocity that was drafted for the order, if one was."""
        model = self._folder / f"held-{key_of(order_id)}.blob"
        velocity = self.velocity_draft(order_id)
        if velocity.exists():
            sync(velocity)
        write_whole(model, blob)
        kept = velocity.name if velocity.exists() else ""
        description = HeldDescription(run_id, order_id, digest, answer.hex(), model.name, kept)
        write_whole(self._folder / _DESCRIPTION, json.dumps(asdict(description)))
        for old in (*self._folder.glob("held-*.blob"), *self._folder.glob("velocity-*.blob")):
            if old not in (model, velocity):
                old.unlink()


def _plain(name: str) -> str:
    """A file name of this folder; ValueError for anything that leads out of it."""
    if not name or Path(name).name != name:
        raise ValueError(f"not a file's name: {name!r}")
    return name
