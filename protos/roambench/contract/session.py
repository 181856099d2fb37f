"""Words that a controller and an agent send each other over their session, besides orders and answers."""

from __future__ import annotations

from dataclasses import dataclass

from roambench.contract.events import EventKind
from roambench.contract.orders import Answer, GivenOrder


@dataclass(frozen=True, slots=True)
class Hello:
    """The first frame of every session: who the agent is, and what it has."""

    protocol_version: int  # `wire.v1.methods.PROTOCOL_VERSION`
    device: str  # the name in its certificate
    machine_id: str  # tells a reconnect from a cloned SD card
    boot_id: str
    agent_version: str
    capabilities: tuple[str, ...]
    spool_uuid: str
    trained_order_ids: tuple[str, ...]  # orders whose model is finished and on disk
    rss_bytes: int  # reader process
    trainer_rss_bytes: int
    started_ns: int
    peer_address: str  # host:port of the peer port, if it is open
    build: str = ""  # of an agent that was provisioned


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """An event that the controller hears of at once; the durable record goes through the spool."""

    kind: EventKind
    at_ns: int  # device time
    order_id: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer as it was written down, to be sent (again) as it is."""

    serialised: bytes


@dataclass(frozen=True, slots=True)
class ClockEcho:
    """The answer to a `ClockProbe`: the second and the third of the four stamps, device time."""

    probe: int
    received_ns: int
    sent_ns: int


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request for the model of that digest, which the order names (`model_blob.fits_session`)."""

    order_id: str
    digest: str


@dataclass(frozen=True, slots=True)
class ModelUpload:
    """The model that an upload order asks for (`model_blob.fits_session`)."""

    order_id: str
    train_order_id: str
    ap: int
    digest: str
    blob: bytes


#: What an agent sends unasked or as an answer.
AgentWord = SessionEvent | Answer | KeptAnswer | ClockEcho | ModelRequest | ModelUpload


@dataclass(frozen=True, slots=True)
class Welcome:
    """The controller's first frame: the run, and what an agent has to know of it."""

    run_id: str
    data_address: str = ""  # host:port of the data plane
    learning_json: bytes = b""  # `learning_spec.LearningSpec`
    exchanges: bool = False  # devices exchange models: open a peer port
    revoked_serials: tuple[str, ...] = ()  # certificates that it refuses, as decimal numbers
    resumes_at: int = 0  # as in `GivenOrder`
    part: int = 0  # how many controllers of this run have died or were stopped
    quiet: bool = False  # send nothing while a phase is measured, or the board rests around it
    rest_s: float = 0.0  # device time in which a board rests after a measured phase; half of it before
    host_period_s: float = 0.0  # how often the board itself is looked at; 0: never
    host_during_phases: bool = False
    bench: str = ""  # where the run is made, and its learning system: tags of its records
    system: str = ""
    drain_period_s: float = 0.0  # host seconds between drains to it; 0: as the agent likes


@dataclass(frozen=True, slots=True)
class ClockProbe:
    """To be echoed at once."""

    probe: int


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of the run."""

    reason: str
    drain_s: float  # how long the agent may take to empty its spool
    #: What the device holds now is what that step begins with; 0: the run is over for good.
    resumes_at: int = 0


@dataclass(frozen=True, slots=True)
class Silence:
    """While it is on, a quiet agent sends nothing unasked."""

    on: bool


@dataclass(frozen=True, slots=True)
class DutySchedule:
    """Levels of `contract.duty` to live at, one after the other, each for `block_s` of device time."""

    levels: tuple[str, ...]
    block_s: float


@dataclass(frozen=True, slots=True)
class Refusal:
    """The end of a session; `final`: to dial again is pointless."""

    reason: str
    final: bool


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The answer to a `ModelRequest`; `refusal`: why there is no model, empty where there is."""

    order_id: str
    digest: str  # as it was asked for
    sent_digest: str = ""  # of the blob: another one where models are coded
    blob: bytes = b""
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class ModelReceipt:
    """The answer to a `ModelUpload`; `refusal`: why it is not accepted, empty where it is."""

    order_id: str
    digest: str
    refusal: str = ""


#: What a controller sends a welcomed agent.
ControllerWord = Welcome | GivenOrder | ClockProbe | Stop | Silence | DutySchedule | ModelReply | ModelReceipt
