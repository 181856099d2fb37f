"""The fleet of real agents: they dial in, hold a session, are given orders and answer them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field

from roambench.agent.settings import HostSettings
from roambench.contract.addresses import host_port
from roambench.contract.awake_timeout import AwakeTimeout
from roambench.contract.device_time import DeviceClock
from roambench.contract.duty import DutyLevel
from roambench.contract.errors import RunError
from roambench.contract.events import EventKind
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.orders import (
    Answer,
    Order,
    TransferOrder,
    Vector,
)
from roambench.contract.session import DutySchedule, Silence, Stop, Welcome
from roambench.fleet.control_plane import ClockObserver, ControlPlane, Observer
from roambench.fleet.data_plane import DataPlane
from roambench.fleet.drain_writer import DrainWriter, RecordSink
from roambench.fleet.fleet_ports import FleetPorts
from roambench.fleet.guard import FleetIdentity
from roambench.fleet.limits import AgentLimits, Allowances
from roambench.fleet.model_registry import ModelRegistry
from roambench.fleet.order_giver import OrderGiver
from roambench.fleet.outstanding import OutstandingOrders
from roambench.fleet.sessions import Session, Sessions
from roambench.fleet.shards import ShippedShard
from roambench.identity.authority import Credential
from roambench.learning.codecs.codec import Shapes
from roambench.learning.malloc import keep_freed_memory
from roambench.rounds.ports import OnAnswer, keep_all
from roambench.rounds.records import ClockOccasion, ClockProbed
from roambench.spool.drain import PERIOD_S

_BURSTS_AT_ONCE = 4
_DRAINS_PER_S = 200  # of all devices together: with more than 100 each waits longer between its own


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """`deadline_s` is in device time, per order, from the moment it is given; the rests that an order has,
    each of `rest_s`, come on top."""

    run_id: str
    names: tuple[str, ...]
    learning: tuple[LearningSpec, ...]  # one per device: they differ in their shard
    layout: str
    deadline_s: float
    shapes: Shapes = ()  # of the model's tensors, for codecs
    listen_host: str = "127.0.0.1"
    control_port: int = 0
    data_port: int = 0
    data_host: str = "127.0.0.1"  # the address that agents dial
    rest_s: float = 0.0  # after every measured phase, and half of it before; 0: they do not rest
    quiet: bool = False  # the agents send nothing while they measure: no keepalive, either
    host: HostSettings = field(default_factory=HostSettings)
    shards: tuple[ShippedShard, ...] = ()  # per device, if they fetch their data
    exchanges: bool = False  # devices exchange models: each opens a peer port
    #: By reader, the other boards whose meters hang on it: it drains their readings.
    reads_for: Mapping[str, Collection[str]] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()  # per device, where they are known: to tell whose connection failed
    part: int = 0  # how many controllers of this run have died, or were stopped, before this one
    resumes_at: int = 0  # the step that it goes on with
    bench: str = ""  # where the run is made, and its learning system: tags of its records
    system: str = ""


class GrpcFleet:
    """Implements `rounds.ports.Fleet` over two mutual-TLS ports."""

    def __init__(
        self,
        settings: FleetSettings,
        identity: FleetIdentity | Credential,
        clock: DeviceClock,
        sink: RecordSink,
        observer: Observer,
        clock_observer: ClockObserver,
        revoked_serials: Collection[int] = (),
        limits: AgentLimits | None = None,
        together: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """`identity`: a bench's own, which may change in mid-run, or one credential (and
        `revoked_serials`) for this run alone. `together`: what `sink` stores inside is durable at its end."""
        if isinstance(identity, Credential):
            identity = FleetIdentity.fixed(identity, revoked_serials)
        limits = limits or AgentLimits()
        self._identity = identity
        self._settings = settings
        self._clock = clock
        self._observe = observer
        self._device_of = {name: index for index, name in enumerate(settings.names)}
        self._registry = ModelRegistry(settings.layout, settings.learning[0].codecs, settings.shapes)
        self._outstanding = OutstandingOrders()
        self._hushed = False
        self.sessions = Sessions(
            settings.names, lambda name, reason: self._refused(name, EventKind.SESSION_REFUSED, reason)
        )
        self._giver = OrderGiver(
            settings.names,
            settings.deadline_s,
            self._registry,
            clock,
            self.sessions,
            self._outstanding,
            rest_s=settings.rest_s,
            resumes_at=settings.resumes_at,
        )
        self._drains = DrainWriter(sink, together)
        allowances = Allowances(limits)
        self._ports = FleetPorts(
            identity,
            limits,
            self._refused,
            self._stranger_refused,
            dict(zip(settings.names, settings.addresses, strict=False)),
        )
        self._data_plane = DataPlane(
            guard=self._ports.guard,
            registry=self._registry,
            outstanding=self._outstanding,
            device_of=self._device_of.get,
            clock=clock,
            refused=self._refused,
            transfer_limit_s=clock.host_seconds(settings.deadline_s),
            allowances=allowances,
            shards=dict(enumerate(settings.shards)),
        )
        self._control_plane = ControlPlane(
            guard=self._ports.guard,
            sessions=self.sessions,
            outstanding=self._outstanding,
            background=self._giver.background,
            discards=self._giver.discards,
            device_of=self._device_of.get,
            reads_for=settings.reads_for,
            clock=clock,
            welcome=self._welcome,
            store=self._drains.store,
            models=self._data_plane,
            observe=observer,
            clock_observed=clock_observer,
            may_probe=lambda device: not self._hushed and not self._outstanding.of_device(device),
            allowances=allowances,
            trains_by_program=settings.learning[0].program is not None,
        )
        self.control_port, self.data_port = self._ports.bind(
            settings.listen_host,
            (settings.control_port, settings.data_port),
            (self._control_plane.handlers(), self._data_plane.handlers()),
            keepalive=not settings.quiet,
            devices=len(settings.names),
        )

    # ---- rounds.ports.Fleet ----------------------------------------------------------------

    async def perform(self, orders: Sequence[Order], on_answer: OnAnswer = keep_all) -> list[Answer]:
        """Send the orders and wait until each is answered, also by its deadline or a lost device."""

        async def perform_one(order: Order) -> Answer:
            return on_answer(await self._giver.perform(order))

        return list(await asyncio.gather(*(perform_one(order) for order in orders)))

    def publish(self, model: Vector | bytes) -> str:
        """Offer a model, or a message, for download; returns its digest."""
        return self._registry.publish(model)

    def retain(self, digests: Collection[str]) -> None:
        """Forget published models but those of `digests`."""
        self._registry.retain(digests)

    # ---- checkpoints -----------------------------------------------------------------------

    @property
    def published(self) -> Mapping[str, bytes]:
        """The models that orders may name, as they are sent, by digest."""
        return self._registry.blobs

    def restore(self, digest: str, blob: bytes) -> Vector:
        """Offer a model of a checkpoint under the name that it has there; ModelError if it has another."""
        return self._registry.restore(digest, blob)

    def checkpointed(self, step: int) -> None:
        """The run goes on with `step` should this process die: every device hears of it with its next order,
        and keeps what it holds now."""
        self._giver.resumes_at = step

    # ---- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the ports for agents."""
        keep_freed_memory()  # models of all devices come and go with every step
        await self._ports.open()

    async def stop(self, reason: str, drain_s: float = 30.0, *, may_return: bool = True) -> list[str]:
        """Stop all agents, wait until they have drained and said goodbye; returns who did not.

        One that comes back meanwhile gets it, too; one whose connection has just broken is waited for,
        unless none `may_return`.
        """
        self.sessions.end_run(Stop(reason, drain_s, self._giver.resumes_at))
        try:
            async with AwakeTimeout(drain_s):
                if may_return:
                    await self.sessions.wait_for_goodbyes()
                else:
                    await self.sessions.wait_for_count(0)
        except TimeoutError:
            pass
        await self._ports.unwatch()
        late = self.sessions.expected()
        self._data_plane.let_go()
        await self._ports.close(0.5)
        await self._drains.close()
        return late

    # ---- records that are made here ---------------------------------------------------------

    async def store(self, name: str, spool_uuid: str, records: Sequence[tuple[int, int, bytes]]) -> int:
        """Store records of the device `name` beside its own; returns the highest number that is durable."""
        return await self._drains.store(name, spool_uuid, records)

    # ---- clocks ----------------------------------------------------------------------------

    async def probe_clocks(self, occasion: ClockOccasion) -> list[ClockProbed]:
        """A burst of probes with every device that is here and has no order; returns what was found.

        A few at a time: bursts of a whole fleet at once would measure how they wait for each other.
        """
        some = asyncio.Semaphore(_BURSTS_AT_ONCE)

        async def probe(session: Session) -> ClockProbed | None:
            async with some:
                return await self._control_plane.probe_clock(session, occasion)

        found = await asyncio.gather(*(probe(session) for session in self.sessions.all()))
        return [record for record in found if record is not None]

    # ---- quiet -----------------------------------------------------------------------------

    def hush(self, on: bool) -> None:
        """An idle baseline is measured (or not any more): no clock is probed, not even of who comes back.

        A quiet run's devices are asked for silence besides.
        """
        self._hushed = on
        if self._settings.quiet:
            for session in self.sessions.all():
                session.send(Silence(on))

    # ---- power -----------------------------------------------------------------------------

    def power_is_cut(self, devices: Collection[int]) -> None:
        """The boards of these devices, and no others, have no power from now on: their sessions are over, and
        that they are silent is no fault."""
        self.sessions.dark.clear()
        self.sessions.dark.update(devices)
        for session in self.sessions.all():
            if session.device in self.sessions.dark:
                session.outgoing.put_nowait(None)

    # ---- duties ----------------------------------------------------------------------------

    def give_duty(self, levels: Sequence[DutyLevel], block_s: float) -> int:
        """Set every present device to `levels`, one after the other; return their number."""
        schedule = DutySchedule(tuple(str(level) for level in levels), block_s)
        sessions = self.sessions.all()
        for session in sessions:
            session.send(schedule)
        return len(sessions)

    # ---- orders ----------------------------------------------------------------------------

    async def transfer(self, orders: Sequence[TransferOrder]) -> list[Answer]:
        """Move padding; one answer per order, in the order given, as `perform` has it."""
        return list(await asyncio.gather(*(self._giver.perform(order) for order in orders)))

    # ---- what the planes ask ---------------------------------------------------------------

    def _welcome(self, device: int) -> Welcome:
        settings = self._settings
        return Welcome(
            run_id=settings.run_id,
            data_address=host_port(settings.data_host, self.data_port),
            learning_json=settings.learning[device].to_json(),
            quiet=settings.quiet,
            rest_s=settings.rest_s,
            host_period_s=settings.host.period_s,
            host_during_phases=settings.host.during_phases,
            exchanges=settings.exchanges,
            revoked_serials=tuple(str(serial) for serial in self._identity.revoked()),
            resumes_at=self._giver.resumes_at,
            part=settings.part,
            bench=settings.bench,
            system=settings.system,
            drain_period_s=max(PERIOD_S, len(settings.names) / _DRAINS_PER_S),
        )

    def _refused(self, name: str, kind: EventKind, reason: str) -> None:
        with suppress(RunError):  # a disk that is full: it is refused all the same
            self._observe(self._device_of.get(name, -1), name, kind, reason)

    def _stranger_refused(self, who: str, kind: EventKind, reason: str) -> None:
        """Journal a refusal of a caller that is no device: an address, a port of ours."""
        with suppress(RunError):
            self._observe(-1, who, kind, reason)
