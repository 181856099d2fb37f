"""The loop of the decentralised systems on devices whose models are single numbers, computed by hand."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy import sparse

from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import (
    NO_MODEL_HELD,
    Answer,
    AnswerStatus,
    ExchangeOrder,
    ExchangeReply,
    IdleOrder,
    LeftOut,
    Order,
    UploadOrder,
    UploadReply,
    Vector,
)
from roambench.contract.phases import Outcome
from roambench.mobility.contacts import Neighbours, contacts_at
from roambench.mobility.peer_movement import PeerMovement
from roambench.mobility.trace import Trace
from roambench.rounds.peer_loop import run_peers
from roambench.rounds.peer_run import PeerSettings, PeerState
from roambench.rounds.ports import OnAnswer, Score, keep_all
from roambench.rounds.records import (
    MixingPlanned,
    ModelsExchanged,
    ModelsScored,
    OutcomeDecided,
    RoundRecord,
    RunEnded,
    StepClosed,
    StepOpened,
)

pytestmark = pytest.mark.asyncio

LINE = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])  # neighbours within 1: 0 - 1 - 2


def vector(*values: float) -> Vector:
    return np.array(values, np.float32)


@dataclass
class Devices:
    """A half step of device d adds d + 1; `broken` (step, device) pairs do not manage theirs."""

    broken: dict[tuple[int, int], AnswerStatus] = field(default_factory=dict)
    shuffle: int | None = None
    held: dict[int, Vector] = field(default_factory=dict)
    published: dict[str, Vector] = field(default_factory=dict)
    given: list[Order] = field(default_factory=list)

    def publish(self, model: Vector) -> str:
        digest = digest_of(encode(model, "a" * 32))
        self.published[digest] = model
        return digest

    def retain(self, digests: Collection[str]) -> None:
        for digest in self.published.keys() - set(digests):
            del self.published[digest]

    async def perform(self, orders: Sequence[Order], on_answer: OnAnswer = keep_all) -> list[Answer]:
        self.given += orders
        exchanges = [order for order in orders if isinstance(order, ExchangeOrder)]
        half = {}
        for order in exchanges:
            if order.start_digest:
                self.held[order.device] = self.published[order.start_digest]
            if order.device in self.held and (order.step, order.device) not in self.broken:
                half[order.device] = self.held[order.device] + np.float32(order.device + 1)
        answers = [self._answer(order, half) for order in orders]
        if self.shuffle is not None:
            random.Random(self.shuffle).shuffle(answers)
        return [on_answer(answer) for answer in answers]

    def _answer(self, order: Order, half: dict[int, Vector]) -> Answer:
        about = (order.order_id, order.device, order.step)
        if isinstance(order, UploadOrder):
            assert order.collects
            assert order.free
            assert order.keeps_model
            if order.device not in self.held:
                return Answer(*about, AnswerStatus.REFUSED, NO_MODEL_HELD)
            model = self.held[order.device]
            return Answer(*about, AnswerStatus.DONE, reply=UploadReply(model, f"{float(model[0]):g}"))
        if isinstance(order, IdleOrder):
            return Answer(*about, AnswerStatus.DONE)
        assert isinstance(order, ExchangeOrder)
        if order.device not in half:
            status = self.broken.get((order.step, order.device), AnswerStatus.REFUSED)
            return Answer(*about, status, "cable" if status is AnswerStatus.LOST else NO_MODEL_HELD)
        missing = tuple(device for device in order.neighbours if device not in half)
        total = order.own_weight * half[order.device]
        for device, weight in zip(order.neighbours, order.weights, strict=True):
            total = total + weight * half[device if device in half else order.device]
        self.held[order.device] = total.astype(np.float32)
        left_out = tuple(LeftOut(device, "lost") for device in missing)
        reply = ExchangeReply(5, 1, 0.5, 0.25, "", left_out, sent_bytes=8, received_bytes=4)
        return Answer(*about, AnswerStatus.DONE, reply=reply)


class Book:
    def __init__(self) -> None:
        self.records: list[RoundRecord] = []

    def append(self, record: RoundRecord) -> None:
        self.records.append(record)

    def extend(self, records: Sequence[RoundRecord]) -> None:
        self.records += records

    def of(self, kind: type) -> list:
        return [record for record in self.records if isinstance(record, kind)]


class Judge:
    """Accuracy is the model's number by ten."""

    async def score(self, model: Vector) -> Score:
        return Score(float(model[0]) / 10.0, float(model[0]))


def movement(steps: int, there: Sequence[Sequence[int]] | None = None) -> PeerMovement:
    present = [list(range(3)) for _ in range(steps)] if there is None else [list(each) for each in there]
    fixes = [(step, device) for step, devices in enumerate(present) for device in devices]
    trace = Trace(
        steps=steps,
        step_s=1.0,
        device_names=("a", "b", "c"),
        step=np.array([step for step, _ in fixes], np.int32),
        device=np.array([device for _, device in fixes], np.int32),
        x_m=LINE[[device for _, device in fixes], 0],
        y_m=LINE[[device for _, device in fixes], 1],
        ap_names=("ap",),
        ap_x_m=np.zeros(1),
        ap_y_m=np.zeros(1),
    )

    def neighbours(step: int) -> Neighbours:
        links = contacts_at(LINE, 1.0).toarray()
        away = [device for device in range(3) if device not in present[step]]
        links[away, :] = links[:, away] = False
        return sparse.csr_array(links)

    return PeerMovement(trace, neighbours, np.array([1.0, 0.0, 3.0]), np.array([True, False, False]))


def settings(steps: int, **changes: object) -> PeerSettings:
    told: dict = {"run_id": "r", "seed": 1, "steps": steps, "samples": (4, 1, 1), "mixing": "plain"}
    return PeerSettings(**(told | {"evaluate_every": 1} | changes))


async def play(devices: Devices, steps: int = 1, **changes: object) -> tuple[PeerState, Book]:
    book = Book()
    there = changes.pop("there", None)
    state = changes.pop("state", None)
    counts = changes.pop("class_counts", None)
    held = await run_peers(
        settings(steps, **changes),
        movement(steps, there),  # type: ignore[arg-type]
        devices,
        book,
        vector(0.0),
        class_counts=counts,  # type: ignore[arg-type]
        evaluator=Judge(),
        state=state,  # type: ignore[arg-type]
    )
    return held, book


def values(held: PeerState) -> list[float]:
    return [float(held.models[device][0]) for device in sorted(held.models)]


async def test_two_iterations_of_plain_averages_on_a_line_of_three() -> None:
    held, _ = await play(Devices(), 2)
    # 1, 2, 3 -> (1+2)/2, (1+2+3)/3, (2+3)/2 = 1.5, 2, 2.5; then 2.5, 4, 5.5 -> 3.25, 4, 4.75
    assert values(held) == [3.25, 4.0, 4.75]
    assert float(held.average[0]) == 4.0
    assert held.next_step == 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"mixing": "data_size"}, [1.2, 1.5, 2.5]),  # 4/5 1 + 1/5 2; 4/6 1 + 2/6 + 3/6; (2+3)/2
        ({"mixing": "metropolis_hastings"}, [4 / 3, 2.0, 8 / 3]),  # 1/3 for each link, the rest for oneself
        ({"mixing": "fully_connected"}, [2.0, 2.0, 2.0]),
        ({"mixing": "mobility_aware", "alpha": 1.0}, [1.0, 2.5, 3.0]),  # speeds 1, 0, 3
        ({"mixing": "mobility_aware", "alpha": 0.0}, [1.5, 2.0, 2.5]),
    ],
)
async def test_each_mixing_weighs_as_its_paper_says(changes: dict, expected: list[float]) -> None:
    held, _ = await play(Devices(), **changes)
    assert values(held) == pytest.approx(expected, rel=1e-6)


async def test_a_device_that_is_lost_is_left_out_and_goes_on_from_what_it_held() -> None:
    devices = Devices(broken={(1, 1): AnswerStatus.LOST})
    held, book = await play(devices, 3)
    # Step 0: 1.5, 2, 2.5. Step 1: device 1 is lost; the others have nobody else: 2.5 and 5.5 stay.
    # Step 2: 3.5, 4, 8.5 -> 3.75, 16/3, 6.25
    assert values(held) == pytest.approx([3.75, 16 / 3, 6.25], rel=1e-6)
    outcomes = [outcome for outcome in book.of(OutcomeDecided) if outcome.step == 1]
    assert [(outcome.device, outcome.outcome) for outcome in outcomes] == [
        (0, Outcome.AGGREGATED),
        (1, Outcome.FAILED),
        (2, Outcome.AGGREGATED),
    ]
    assert outcomes[1].reason == "lost: cable"
    told = [exchange for exchange in book.of(ModelsExchanged) if exchange.step == 1]
    assert [(exchange.device, exchange.left_out, exchange.reasons) for exchange in told] == [
        (0, (1,), ("lost",)),
        (2, (1,), ("lost",)),
    ]
    assert [closed.aggregated for closed in book.of(StepClosed)] == [3, 2, 3]


async def test_a_device_without_a_model_is_given_the_first_one_again() -> None:
    devices = Devices(broken={(1, 2): AnswerStatus.REFUSED})
    await play(devices, 3)
    starts = [
        (order.step, order.device, bool(order.start_digest))
        for order in devices.given
        if isinstance(order, ExchangeOrder) and order.device == 2
    ]
    assert starts == [(0, 2, True), (1, 2, False), (2, 2, True)]


async def test_the_order_in_which_answers_arrive_changes_nothing() -> None:
    broken = {(1, 1): AnswerStatus.LOST}
    plain, one = await play(Devices(broken=dict(broken)), 4)
    for seed in range(5):
        mixed_up, other = await play(Devices(broken=dict(broken), shuffle=seed), 4)
        assert values(mixed_up) == values(plain)
        assert [r for r in other.records if not isinstance(r, StepClosed)] == [
            r for r in one.records if not isinstance(r, StepClosed)
        ]


async def test_scores_are_of_every_device_and_of_the_mean_of_the_models() -> None:
    _, book = await play(Devices())
    (scored,) = book.of(ModelsScored)
    assert scored.devices == (0, 1, 2)
    assert scored.scores == pytest.approx((0.15, 0.2, 0.25))
    assert scored.average_score == pytest.approx(0.2)
    assert scored.digests == ("1.5", "2", "2.5")
    (closed,) = book.of(StepClosed)
    assert closed.accuracy == pytest.approx(0.2)


async def test_scores_come_every_nth_iteration_and_at_the_end() -> None:
    _, book = await play(Devices(), 5, evaluate_every=2)
    assert [record.step for record in book.of(ModelsScored)] == [1, 3, 4]
    assert [record.accuracy is None for record in book.of(StepClosed)] == [True, False, True, False, False]


async def test_a_run_ends_when_the_devices_are_good_enough_on_average() -> None:
    _, book = await play(Devices(), 9, stop_at=0.4)
    (ended,) = book.of(RunEnded)
    assert ended.step == 1
    assert [record.step for record in book.of(StepClosed)] == [0, 1]


async def test_w_is_told_as_it_was_ordered_with_its_diagnostics() -> None:
    _, book = await play(Devices(), mixing="metropolis_hastings")
    (planned,) = book.of(MixingPlanned)
    assert planned.counts == (2, 3, 2)
    assert planned.columns == (0, 1, 0, 1, 2, 1, 2)
    assert planned.weights == pytest.approx((2 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 2 / 3))
    # WᵀW has the eigenvalues 1, 4/9, 0: those of W are 1, 2/3, 0.
    assert planned.spectral_gap == pytest.approx(1 - 4 / 9)


@pytest.mark.parametrize(
    ("mixing", "distance"),
    [
        # Everybody's classes are 1/2, 1/2. Reached: 1, 0 by device 0; 1/2, 1/2 by 1; 1/3, 2/3 by 2.
        ("plain", (0.5**0.5 + 0.0 + (1 / 6) * 2**0.5) / 3),
        ("fully_connected", 0.0),  # whoever is in reach
    ],
)
async def test_a_device_reaches_the_classes_of_whose_models_it_gets(mixing: str, distance: float) -> None:
    _, book = await play(Devices(), mixing=mixing, class_counts=np.array([[1, 0], [1, 0], [0, 2]]))
    assert book.of(MixingPlanned)[0].distribution_distance == pytest.approx(distance)


async def test_an_absent_device_neither_trains_nor_gets_a_model_but_is_told_so() -> None:
    devices = Devices()
    held, book = await play(devices, 2, there=[[0, 1, 2], [0, 2]], mixing="fully_connected")
    # Everybody has 2 after step 0. Then 3 and 5 with 1/3 each; the absent one's third goes to oneself.
    assert values(held) == pytest.approx([3 * 2 / 3 + 5 / 3, 2.0, 3 / 3 + 5 * 2 / 3], rel=1e-6)
    idle = [order for order in devices.given if isinstance(order, IdleOrder)]
    assert [(order.step, order.device, order.present) for order in idle] == [(1, 1, False)]
    assert [record.devices for record in book.of(StepOpened)] == [(0, 1, 2), (0, 2)]
    assert book.of(MixingPlanned)[1].counts == (2, 0, 2)


async def test_a_run_that_goes_on_from_a_state_ends_where_the_whole_one_does() -> None:
    whole, _ = await play(Devices(), 5)
    half, _ = await play(Devices(), 3)
    went_on, book = await play(Devices(), 5, state=half)
    assert values(went_on) == values(whole)
    assert [record.step for record in book.of(StepClosed)] == [3, 4]
