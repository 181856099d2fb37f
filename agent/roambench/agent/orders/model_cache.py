"""Files that survive the agent's death: the trained model until it is uploaded, and the last answers
given."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from roambench.contract.json_values import kept_in, plain
from roambench.contract.orders import TrainReply
from roambench.contract.whole_file import sync, take_place, write_whole

_KEPT_ANSWERS = 16  # more than a controller can have outstanding with one device


def key_of(order_id: str) -> str:
    """Return the 16 hex digits that stand for an order in the names of its files."""
    return hashlib.sha256(order_id.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class TrainedDescription:
    """Description of a trained model, in `trained.json`."""

    order_id: str
    reply: TrainReply
    kept: str = ""  # file of what its local algorithm keeps; empty: nothing new


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A finished training: its order, its reply, and where its blob lies."""

    order_id: str
    reply: TrainReply
    path: Path
    base: Path | None = None  # what the training began from, where models are coded as differences


class ModelCache:
    """One trained model at most, the device's own and the global one where a system asks for them, what a
    local algorithm keeps from training to training, what a codec has yet to send, and the answers to the
    newest orders, in `folder`.

    The model's blob is synced before its description is renamed into place: a description never points to
    half a model, whichever process dies. What is kept goes with the description: it is that of the last
    training that was kept whole, and stays when its model is uploaded, discarded or replaced.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._description = folder / "trained.json"
        self._own = folder / "own.blob"
        self._global = folder / "global.blob"
        self._kept = folder / "kept.blob"
        self._memory = folder / "memory.blob"
        self.coded = folder / "coded.blob"
        #: Where the trainer writes what is lost of what is being uploaded; `fed_back` takes it.
        self.memory_draft = folder / "memory-draft.blob"
        self._answers_file = folder / "answers.json"
        self._described: TrainedDescription | None = None
        self._answers: dict[str, str] = {}
        self._read_back()

    def draft(self, order_id: str) -> Path:
        """Return where the trainer writes the blob of `order_id` before it is kept."""
        return self._folder / f"draft-{key_of(order_id)}.blob"

    def kept_draft(self, order_id: str) -> Path:
        """Return where the trainer writes what the local algorithm keeps of `order_id`, before it is kept."""
        return self._folder / f"kept-draft-{key_of(order_id)}.blob"

    def kept(self) -> Path | None:
        """Return what the local algorithm keeps on the device; None before its first training."""
        found = self._described
        if found is not None and found.kept and (path := self._folder / Path(found.kept).name).exists():
            return path
        return self._kept if self._kept.exists() else None

    def memory(self) -> Path | None:
        """Return what was lost of the models that were uploaded, to be sent with the next; None: nothing."""
        return self._memory if self._memory.exists() else None

    def fed_back(self) -> None:
        """Note that what was coded last has arrived: what was lost of it is to be sent with the next."""
        if self.memory_draft.exists():
            take_place(self.memory_draft, self._memory)

    def keep(
        self,
        order_id: str,
        reply: TrainReply,
        draft: Path,
        kept_draft: Path | None = None,
        base: Path | None = None,
    ) -> CachedModel:
        """Put the blob at `draft` in the model cache; it replaces any model that was there, and so does what
        lies at `kept_draft`, if anything does. With it goes a copy of `base`, what its training began
        from."""
        kept: Path | None = None
        if kept_draft is not None and kept_draft.exists():
            kept = self._folder / kept_draft.name.replace("kept-draft", "kept")
            take_place(kept_draft, kept)
        elif (before := self.kept()) is not None:
            kept = before
        path = self._folder / f"trained-{reply.model_digest[:16]}.blob"
        take_place(draft, path)
        if base is not None:
            write_whole(self._base_of(path), base.read_bytes())
        described = TrainedDescription(order_id, reply, kept.name if kept is not None else "")
        write_whole(self._description, json.dumps(described, default=plain))
        self._described = described
        for other in list(self._folder.iterdir()):
            if other.suffix == ".blob" and other not in (path, kept):
                if other.name.startswith(("trained-", "kept")):
                    other.unlink()
                if other.name.startswith("trained-"):
                    self._base_of(other).unlink(missing_ok=True)
        return CachedModel(order_id, reply, path, base and self._base_of(path))

    def trained(self) -> CachedModel | None:
        """The model in the model cache, or None; a damaged one counts as none."""
        found = self._described
        if found is None:
            return None
        path = self._folder / f"trained-{found.reply.model_digest[:16]}.blob"
        base = self._base_of(path)
        if not path.exists():
            return None
        return CachedModel(found.order_id, found.reply, path, base if base.exists() else None)

    def _base_of(self, trained: Path) -> Path:
        return trained.with_name(trained.name.replace("trained-", "base-"))

    def release(self, order_id: str, *, as_own: bool = False) -> None:
        """Take the model of `order_id` out of the model cache (uploaded or discarded); `as_own` keeps it as
        the device's own model."""
        model = self.trained()
        if model is not None and model.order_id == order_id:
            kept = self.kept()
            if kept is not None and kept != self._kept:
                kept.replace(self._kept)  # where it is found without the description
            # Dying in between leaves a model without its description, as if it were released.
            self._description.unlink(missing_ok=True)
            self._described = None
            self._base_of(model.path).unlink(missing_ok=True)
            if as_own:
                model.path.replace(self._own)
            else:
                model.path.unlink(missing_ok=True)

    def synchronise(self, blob: bytes) -> None:
        """Take over the model of a cloud aggregation: what the device trained is no longer its own."""
        model = self.trained()
        if model is not None:
            self.release(model.order_id)
        self._own.unlink(missing_ok=True)
        write_whole(self._global, blob)

    def own_model(self) -> Path | None:
        """The device's own model: that of its last training, else the last global one; None before both."""
        model = self.trained()
        if model is not None:
            return model.path
        return next((path for path in (self._own, self._global) if path.exists()), None)

    def global_model(self) -> Path | None:
        """The last global model that reached the device."""
        return self._global if self._global.exists() else None

    def remember(self, order_id: str, answer: bytes) -> None:
        """Keep the serialised answer of an order, so that a repeat is answered and not carried out twice."""
        if self._answers.get(order_id) == answer.hex():
            return
        self._answers[order_id] = answer.hex()
        while len(self._answers) > _KEPT_ANSWERS:
            del self._answers[next(iter(self._answers))]
        # A reboot ends what was trained or under way: what is asked again then is done again.
        write_whole(self._answers_file, json.dumps(self._answers), synced=False)

    def answer(self, order_id: str) -> bytes | None:
        """The answer kept for this order, None if there is none."""
        text = self._answers.get(order_id)
        return None if text is None else bytes.fromhex(text)

    def clear(self) -> None:
        """Everything here was of a run that is over."""
        self._answers.clear()
        self._described = None
        self._description.unlink(missing_ok=True)  # first: never a description without its model
        for file in self._folder.iterdir():
            if file.is_file():
                file.unlink(missing_ok=True)

    def files(self) -> list[Path]:
        """All that is kept, for a `ResumePoint`."""
        model = self.trained()
        kept = [self._own, self._global, self._memory, self._answers_file]
        if model is not None:
            kept += [self._description, model.path, *([model.base] if model.base else [])]
        if (state := self.kept()) is not None:
            kept.append(state)
        return [file for file in kept if file.exists()]

    def put_back(self, folder: Path) -> None:
        """Keep again what `files` were when they were linked into `folder`."""
        self.clear()
        for file in sorted(folder.iterdir(), key=lambda file: file.name == self._description.name):
            os.link(file, self._folder / file.name)
        sync(self._folder)
        self._read_back()

    def _read_back(self) -> None:
        self._described = kept_in(TrainedDescription, self._description, finite=False)
        self._answers = self._read_answers()

    def _read_answers(self) -> dict[str, str]:
        found = kept_in(dict[str, str], self._answers_file) or {}
        try:
            return {order_id: bytes.fromhex(answer).hex() for order_id, answer in found.items()}
        except ValueError:
            return {}
