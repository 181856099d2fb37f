"""A device whose controller died holds again what it held before the step that is done again."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.agent.orders.held_model import HeldModel
from roambench.agent.orders.model_cache import ModelCache
from roambench.agent.orders.resume_point import ResumePoint
from roambench.contract.orders import TrainReply


class Device:
    """What survives an agent's death: made anew, it is the agent's next life."""

    def __init__(self, folder: Path) -> None:
        self.model_cache, self.held = ModelCache(folder / "model-cache"), HeldModel(folder / "held")
        self.folder = folder / "resume-point"
        self.point = ResumePoint(self.folder, {"model-cache": self.model_cache, "held": self.held})

    def train(self, order_id: str, digest: str) -> None:
        draft = self.model_cache.draft(order_id)
        draft.write_bytes(digest.encode())
        reply = TrainReply(10, 2, mean_loss=0.5, mean_squared_loss=0.3, model_digest=digest)
        self.model_cache.keep(order_id, reply, draft)
        self.model_cache.remember(order_id, b"trained")

    def exchange(self, order_id: str, content: bytes) -> None:
        self.held.velocity_draft(order_id).write_bytes(b"velocity of " + content)
        self.held.keep("run", order_id, content, "ab" * 32, b"done")

    @property
    def holds(self) -> tuple[object, ...]:
        own, world, held = self.model_cache.own_model(), self.model_cache.global_model(), self.held.last()
        return (
            self.model_cache.trained(),
            own and own.read_bytes(),
            world and world.read_bytes(),
            held and (held.order_id, held.model.read_bytes(), held.velocity and held.velocity.read_bytes()),
            self.model_cache.answer("run/1"),
            self.model_cache.answer("run/2"),
        )


def step(device: Device, number: int, resumes_at: int) -> None:
    """A training, its upload, the global model, and an exchange."""
    device.point.reach(resumes_at)
    order = f"run/{number}"
    device.train(order, f"{number:02x}" * 32)
    if number % 2:
        device.model_cache.release(order, as_own=True)
    else:
        device.model_cache.synchronise(b"global %d" % number)
    device.exchange(order, b"mixed %d" % number)


def test_it_holds_again_what_it_held_whichever_life_it_lives(tmp_path: Path) -> None:
    device = Device(tmp_path)
    device.point.begin("run", 0, 0)
    step(device, 1, 0)
    before = device.holds
    assert None not in (before[1], before[3], before[4])
    step(device, 2, 2)  # a checkpoint before step 2
    step(device, 3, 2)  # none before step 3
    assert device.holds != before
    again = Device(tmp_path)
    again.point.begin("run", 2, 0)  # only the agent died
    assert again.holds == device.holds
    assert again.point.is_behind("run", 1)
    again.point.begin("run", 2, 1)
    assert again.holds == before
    step(again, 2, 2)
    assert again.holds != before
    third = Device(tmp_path)
    third.point.begin("run", 2, 1)  # the same controller: what was done stays done
    assert third.holds == again.holds
    third.point.begin("run", 2, 2)  # and another one dies, before a checkpoint
    assert third.holds == before


def test_a_death_in_the_middle_of_going_back_goes_back_again(tmp_path: Path) -> None:
    device = Device(tmp_path)
    device.point.begin("run", 0, 0)
    step(device, 1, 0)
    before = device.holds
    step(device, 2, 2)
    device.model_cache.clear()  # as far as it came
    again = Device(tmp_path)
    again.point.begin("run", 2, 1)
    assert again.holds == before


def test_who_had_no_order_since_the_checkpoint_holds_what_it_held(tmp_path: Path) -> None:
    device = Device(tmp_path)
    device.point.begin("run", 0, 0)
    step(device, 1, 0)
    step(device, 2, 2)
    before = device.holds
    device.point.begin("run", 3, 1)  # the checkpoint before step 3 is all that came after
    assert device.holds == before
    step(device, 3, 3)
    device.point.begin("run", 3, 2)
    assert device.holds == before


def test_one_point_is_kept_and_another_runs_is_none_of_ours(tmp_path: Path) -> None:
    device = Device(tmp_path)
    device.point.begin("run", 0, 0)
    assert not device.folder.exists()  # nothing to go on from, nothing kept
    for number in (1, 2, 3):
        step(device, number, number)
        assert [place.name for place in device.folder.iterdir() if place.is_dir()] == [f"{number}-0"]
    before = device.holds
    device.point.begin("another", 0, 0)
    assert not device.point.is_behind("another", 0)
    device.point.begin("another", 1, 1)
    assert device.holds == before
    device.point.clear()
    assert not device.folder.exists()


def test_a_damaged_point_counts_as_none(tmp_path: Path) -> None:
    device = Device(tmp_path)
    device.point.begin("run", 0, 0)
    step(device, 1, 1)
    (device.folder / "point.json").write_text("{")
    before = device.holds
    again = Device(tmp_path)
    again.point.begin("run", 1, 1)
    assert again.holds == before


def test_a_point_that_cannot_be_made_leaves_the_one_before_as_it_was(tmp_path: Path) -> None:
    device = Device(tmp_path)
    device.point.begin("run", 0, 0)
    step(device, 1, 0)
    held = device.holds
    device.point.reach(1)
    step(device, 2, 1)
    (device.folder / "2-0").touch()  # no folder can be made there
    description = device.folder / "point.json"
    kept = description.read_bytes()
    with pytest.raises(OSError):
        device.point.reach(2)
    assert description.read_bytes() == kept
    assert [path.name for path in device.folder.iterdir() if path.is_dir()] == ["1-0"]
    (device.folder / "2-0").unlink()
    again = Device(tmp_path)
    again.point.begin("run", 1, 1)
    assert again.holds == held
