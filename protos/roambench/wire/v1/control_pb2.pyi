from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AgentFrame(_message.Message):
    __slots__ = ("hello", "event", "answer", "clock_echo", "goodbye", "model_request", "model_upload")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    CLOCK_ECHO_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    MODEL_REQUEST_FIELD_NUMBER: _ClassVar[int]
    MODEL_UPLOAD_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    event: SessionEvent
    answer: Answer
    clock_echo: ClockEcho
    goodbye: Goodbye
    model_request: ModelRequest
    model_upload: ModelUpload
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., event: _Optional[_Union[SessionEvent, _Mapping]] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ..., clock_echo: _Optional[_Union[ClockEcho, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., model_request: _Optional[_Union[ModelRequest, _Mapping]] = ..., model_upload: _Optional[_Union[ModelUpload, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol_version", "device", "machine_id", "boot_id", "agent_version", "build", "capabilities", "spool_uuid", "trained_order_ids", "rss_bytes", "trainer_rss_bytes", "started_ns", "peer_address")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    SPOOL_UUID_FIELD_NUMBER: _ClassVar[int]
    TRAINED_ORDER_IDS_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    TRAINER_RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    PEER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    device: str
    machine_id: str
    boot_id: str
    agent_version: str
    build: str
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    spool_uuid: str
    trained_order_ids: _containers.RepeatedScalarFieldContainer[str]
    rss_bytes: int
    trainer_rss_bytes: int
    started_ns: int
    peer_address: str
    def __init__(self, protocol_version: _Optional[int] = ..., device: _Optional[str] = ..., machine_id: _Optional[str] = ..., boot_id: _Optional[str] = ..., agent_version: _Optional[str] = ..., build: _Optional[str] = ..., capabilities: _Optional[_Iterable[str]] = ..., spool_uuid: _Optional[str] = ..., trained_order_ids: _Optional[_Iterable[str]] = ..., rss_bytes: _Optional[int] = ..., trainer_rss_bytes: _Optional[int] = ..., started_ns: _Optional[int] = ..., peer_address: _Optional[str] = ...) -> None: ...

class SessionEvent(_message.Message):
    __slots__ = ("order_id", "kind", "at_ns", "detail")
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    order_id: str
    kind: str
    at_ns: int
    detail: str
    def __init__(self, order_id: _Optional[str] = ..., kind: _Optional[str] = ..., at_ns: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("order_id", "status", "reason", "train", "upload", "sync", "transfer", "exchange")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[Answer.Status]
        DONE: _ClassVar[Answer.Status]
        REFUSED: _ClassVar[Answer.Status]
        FAILED: _ClassVar[Answer.Status]
        TIMEOUT: _ClassVar[Answer.Status]
    STATUS_UNSPECIFIED: Answer.Status
    DONE: Answer.Status
    REFUSED: Answer.Status
    FAILED: Answer.Status
    TIMEOUT: Answer.Status
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TRAIN_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    order_id: str
    status: Answer.Status
    reason: str
    train: TrainReply
    upload: UploadReport
    sync: SyncReply
    transfer: TransferReply
    exchange: ExchangeReply
    def __init__(self, order_id: _Optional[str] = ..., status: _Optional[_Union[Answer.Status, str]] = ..., reason: _Optional[str] = ..., train: _Optional[_Union[TrainReply, _Mapping]] = ..., upload: _Optional[_Union[UploadReport, _Mapping]] = ..., sync: _Optional[_Union[SyncReply, _Mapping]] = ..., transfer: _Optional[_Union[TransferReply, _Mapping]] = ..., exchange: _Optional[_Union[ExchangeReply, _Mapping]] = ...) -> None: ...

class TransferReply(_message.Message):
    __slots__ = ("transfers", "transferred_bytes", "transfer_s")
    TRANSFERS_FIELD_NUMBER: _ClassVar[int]
    TRANSFERRED_BYTES_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_S_FIELD_NUMBER: _ClassVar[int]
    transfers: int
    transferred_bytes: int
    transfer_s: float
    def __init__(self, transfers: _Optional[int] = ..., transferred_bytes: _Optional[int] = ..., transfer_s: _Optional[float] = ...) -> None: ...

class TrainReply(_message.Message):
    __slots__ = ("samples", "sgd_steps", "mean_loss", "mean_squared_loss", "cpu_s", "device_s", "late_s", "model_digest", "downloaded_bytes", "download_s", "coding_s")
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    SGD_STEPS_FIELD_NUMBER: _ClassVar[int]
    MEAN_LOSS_FIELD_NUMBER: _ClassVar[int]
    MEAN_SQUARED_LOSS_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    DEVICE_S_FIELD_NUMBER: _ClassVar[int]
    LATE_S_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    DOWNLOADED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DOWNLOAD_S_FIELD_NUMBER: _ClassVar[int]
    CODING_S_FIELD_NUMBER: _ClassVar[int]
    samples: int
    sgd_steps: int
    mean_loss: float
    mean_squared_loss: float
    cpu_s: float
    device_s: float
    late_s: float
    model_digest: bytes
    downloaded_bytes: int
    download_s: float
    coding_s: float
    def __init__(self, samples: _Optional[int] = ..., sgd_steps: _Optional[int] = ..., mean_loss: _Optional[float] = ..., mean_squared_loss: _Optional[float] = ..., cpu_s: _Optional[float] = ..., device_s: _Optional[float] = ..., late_s: _Optional[float] = ..., model_digest: _Optional[bytes] = ..., downloaded_bytes: _Optional[int] = ..., download_s: _Optional[float] = ..., coding_s: _Optional[float] = ...) -> None: ...

class UploadReport(_message.Message):
    __slots__ = ("uploaded_bytes", "upload_s", "model_digest", "coding_s")
    UPLOADED_BYTES_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_S_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CODING_S_FIELD_NUMBER: _ClassVar[int]
    uploaded_bytes: int
    upload_s: float
    model_digest: bytes
    coding_s: float
    def __init__(self, uploaded_bytes: _Optional[int] = ..., upload_s: _Optional[float] = ..., model_digest: _Optional[bytes] = ..., coding_s: _Optional[float] = ...) -> None: ...

class SyncReply(_message.Message):
    __slots__ = ("downloaded_bytes", "download_s", "divergence", "coding_s")
    DOWNLOADED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DOWNLOAD_S_FIELD_NUMBER: _ClassVar[int]
    DIVERGENCE_FIELD_NUMBER: _ClassVar[int]
    CODING_S_FIELD_NUMBER: _ClassVar[int]
    downloaded_bytes: int
    download_s: float
    divergence: float
    coding_s: float
    def __init__(self, downloaded_bytes: _Optional[int] = ..., download_s: _Optional[float] = ..., divergence: _Optional[float] = ..., coding_s: _Optional[float] = ...) -> None: ...

class ExchangeReply(_message.Message):
    __slots__ = ("samples", "sgd_steps", "mean_loss", "mean_squared_loss", "model_digest", "left_out", "not_taken", "sent_bytes", "received_bytes", "exchange_s", "cpu_s", "device_s", "late_s", "downloaded_bytes", "download_s", "model_bytes")
    class LeftOut(_message.Message):
        __slots__ = ("device", "reason", "moved_bytes")
        DEVICE_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        MOVED_BYTES_FIELD_NUMBER: _ClassVar[int]
        device: int
        reason: str
        moved_bytes: int
        def __init__(self, device: _Optional[int] = ..., reason: _Optional[str] = ..., moved_bytes: _Optional[int] = ...) -> None: ...
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    SGD_STEPS_FIELD_NUMBER: _ClassVar[int]
    MEAN_LOSS_FIELD_NUMBER: _ClassVar[int]
    MEAN_SQUARED_LOSS_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    NOT_TAKEN_FIELD_NUMBER: _ClassVar[int]
    SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_S_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    DEVICE_S_FIELD_NUMBER: _ClassVar[int]
    LATE_S_FIELD_NUMBER: _ClassVar[int]
    DOWNLOADED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DOWNLOAD_S_FIELD_NUMBER: _ClassVar[int]
    MODEL_BYTES_FIELD_NUMBER: _ClassVar[int]
    samples: int
    sgd_steps: int
    mean_loss: float
    mean_squared_loss: float
    model_digest: bytes
    left_out: _containers.RepeatedCompositeFieldContainer[ExchangeReply.LeftOut]
    not_taken: _containers.RepeatedCompositeFieldContainer[ExchangeReply.LeftOut]
    sent_bytes: int
    received_bytes: int
    exchange_s: float
    cpu_s: float
    device_s: float
    late_s: float
    downloaded_bytes: int
    download_s: float
    model_bytes: int
    def __init__(self, samples: _Optional[int] = ..., sgd_steps: _Optional[int] = ..., mean_loss: _Optional[float] = ..., mean_squared_loss: _Optional[float] = ..., model_digest: _Optional[bytes] = ..., left_out: _Optional[_Iterable[_Union[ExchangeReply.LeftOut, _Mapping]]] = ..., not_taken: _Optional[_Iterable[_Union[ExchangeReply.LeftOut, _Mapping]]] = ..., sent_bytes: _Optional[int] = ..., received_bytes: _Optional[int] = ..., exchange_s: _Optional[float] = ..., cpu_s: _Optional[float] = ..., device_s: _Optional[float] = ..., late_s: _Optional[float] = ..., downloaded_bytes: _Optional[int] = ..., download_s: _Optional[float] = ..., model_bytes: _Optional[int] = ...) -> None: ...

class ClockEcho(_message.Message):
    __slots__ = ("probe", "received_ns", "sent_ns")
    PROBE_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_NS_FIELD_NUMBER: _ClassVar[int]
    SENT_NS_FIELD_NUMBER: _ClassVar[int]
    probe: int
    received_ns: int
    sent_ns: int
    def __init__(self, probe: _Optional[int] = ..., received_ns: _Optional[int] = ..., sent_ns: _Optional[int] = ...) -> None: ...

class ModelRequest(_message.Message):
    __slots__ = ("order_id", "digest")
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    order_id: str
    digest: bytes
    def __init__(self, order_id: _Optional[str] = ..., digest: _Optional[bytes] = ...) -> None: ...

class ModelUpload(_message.Message):
    __slots__ = ("order_id", "train_order_id", "ap", "digest", "blob")
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    TRAIN_ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    AP_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    order_id: str
    train_order_id: str
    ap: int
    digest: bytes
    blob: bytes
    def __init__(self, order_id: _Optional[str] = ..., train_order_id: _Optional[str] = ..., ap: _Optional[int] = ..., digest: _Optional[bytes] = ..., blob: _Optional[bytes] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("reason", "left_in_spool")
    class LeftInSpoolEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    REASON_FIELD_NUMBER: _ClassVar[int]
    LEFT_IN_SPOOL_FIELD_NUMBER: _ClassVar[int]
    reason: str
    left_in_spool: _containers.ScalarMap[str, int]
    def __init__(self, reason: _Optional[str] = ..., left_in_spool: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ControllerFrame(_message.Message):
    __slots__ = ("welcome", "refusal", "order", "clock_probe", "stop", "quiet", "duty", "model_reply", "model_receipt")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    CLOCK_PROBE_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    QUIET_FIELD_NUMBER: _ClassVar[int]
    DUTY_FIELD_NUMBER: _ClassVar[int]
    MODEL_REPLY_FIELD_NUMBER: _ClassVar[int]
    MODEL_RECEIPT_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    refusal: Refusal
    order: Order
    clock_probe: ClockProbe
    stop: Stop
    quiet: Silence
    duty: DutySchedule
    model_reply: ModelReply
    model_receipt: ModelReceipt
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ..., order: _Optional[_Union[Order, _Mapping]] = ..., clock_probe: _Optional[_Union[ClockProbe, _Mapping]] = ..., stop: _Optional[_Union[Stop, _Mapping]] = ..., quiet: _Optional[_Union[Silence, _Mapping]] = ..., duty: _Optional[_Union[DutySchedule, _Mapping]] = ..., model_reply: _Optional[_Union[ModelReply, _Mapping]] = ..., model_receipt: _Optional[_Union[ModelReceipt, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("run_id", "data_address", "learning_json", "exchanges", "revoked_serials", "resumes_at", "part", "quiet", "host_period_s", "host_during_phases", "rest_s", "bench", "system", "drain_period_s")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LEARNING_JSON_FIELD_NUMBER: _ClassVar[int]
    EXCHANGES_FIELD_NUMBER: _ClassVar[int]
    REVOKED_SERIALS_FIELD_NUMBER: _ClassVar[int]
    RESUMES_AT_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    QUIET_FIELD_NUMBER: _ClassVar[int]
    HOST_PERIOD_S_FIELD_NUMBER: _ClassVar[int]
    HOST_DURING_PHASES_FIELD_NUMBER: _ClassVar[int]
    REST_S_FIELD_NUMBER: _ClassVar[int]
    BENCH_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    DRAIN_PERIOD_S_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    data_address: str
    learning_json: bytes
    exchanges: bool
    revoked_serials: _containers.RepeatedScalarFieldContainer[str]
    resumes_at: int
    part: int
    quiet: bool
    host_period_s: float
    host_during_phases: bool
    rest_s: float
    bench: str
    system: str
    drain_period_s: float
    def __init__(self, run_id: _Optional[str] = ..., data_address: _Optional[str] = ..., learning_json: _Optional[bytes] = ..., exchanges: bool = ..., revoked_serials: _Optional[_Iterable[str]] = ..., resumes_at: _Optional[int] = ..., part: _Optional[int] = ..., quiet: bool = ..., host_period_s: _Optional[float] = ..., host_during_phases: bool = ..., rest_s: _Optional[float] = ..., bench: _Optional[str] = ..., system: _Optional[str] = ..., drain_period_s: _Optional[float] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("reason", "final")
    REASON_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    reason: str
    final: bool
    def __init__(self, reason: _Optional[str] = ..., final: bool = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("order_id", "step", "device", "deadline_s", "resumes_at", "in_session", "train", "upload", "discard", "idle", "sync", "transfer", "exchange", "program")
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    RESUMES_AT_FIELD_NUMBER: _ClassVar[int]
    IN_SESSION_FIELD_NUMBER: _ClassVar[int]
    TRAIN_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_FIELD_NUMBER: _ClassVar[int]
    DISCARD_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    order_id: str
    step: int
    device: int
    deadline_s: float
    resumes_at: int
    in_session: bool
    train: TrainOrder
    upload: UploadOrder
    discard: DiscardOrder
    idle: IdleOrder
    sync: SyncOrder
    transfer: TransferOrder
    exchange: ExchangeOrder
    program: ProgramOrder
    def __init__(self, order_id: _Optional[str] = ..., step: _Optional[int] = ..., device: _Optional[int] = ..., deadline_s: _Optional[float] = ..., resumes_at: _Optional[int] = ..., in_session: bool = ..., train: _Optional[_Union[TrainOrder, _Mapping]] = ..., upload: _Optional[_Union[UploadOrder, _Mapping]] = ..., discard: _Optional[_Union[DiscardOrder, _Mapping]] = ..., idle: _Optional[_Union[IdleOrder, _Mapping]] = ..., sync: _Optional[_Union[SyncOrder, _Mapping]] = ..., transfer: _Optional[_Union[TransferOrder, _Mapping]] = ..., exchange: _Optional[_Union[ExchangeOrder, _Mapping]] = ..., program: _Optional[_Union[ProgramOrder, _Mapping]] = ...) -> None: ...

class TransferOrder(_message.Message):
    __slots__ = ("upload", "total_bytes", "mbit_s", "repeats")
    UPLOAD_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    MBIT_S_FIELD_NUMBER: _ClassVar[int]
    REPEATS_FIELD_NUMBER: _ClassVar[int]
    upload: bool
    total_bytes: int
    mbit_s: float
    repeats: int
    def __init__(self, upload: bool = ..., total_bytes: _Optional[int] = ..., mbit_s: _Optional[float] = ..., repeats: _Optional[int] = ...) -> None: ...

class LocalTraining(_message.Message):
    __slots__ = ("epochs", "seed", "steps", "objective", "start_rule")
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVE_FIELD_NUMBER: _ClassVar[int]
    START_RULE_FIELD_NUMBER: _ClassVar[int]
    epochs: int
    seed: int
    steps: int
    objective: str
    start_rule: str
    def __init__(self, epochs: _Optional[int] = ..., seed: _Optional[int] = ..., steps: _Optional[int] = ..., objective: _Optional[str] = ..., start_rule: _Optional[str] = ...) -> None: ...

class TrainOrder(_message.Message):
    __slots__ = ("ap", "start_digest", "training", "download_mbit_s", "previous_digest")
    AP_FIELD_NUMBER: _ClassVar[int]
    START_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    DOWNLOAD_MBIT_S_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ap: int
    start_digest: bytes
    training: LocalTraining
    download_mbit_s: float
    previous_digest: bytes
    def __init__(self, ap: _Optional[int] = ..., start_digest: _Optional[bytes] = ..., training: _Optional[_Union[LocalTraining, _Mapping]] = ..., download_mbit_s: _Optional[float] = ..., previous_digest: _Optional[bytes] = ...) -> None: ...

class ProgramOrder(_message.Message):
    __slots__ = ("ap", "digest", "evaluates", "download_mbit_s", "limit_s")
    AP_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    EVALUATES_FIELD_NUMBER: _ClassVar[int]
    DOWNLOAD_MBIT_S_FIELD_NUMBER: _ClassVar[int]
    LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    ap: int
    digest: bytes
    evaluates: bool
    download_mbit_s: float
    limit_s: float
    def __init__(self, ap: _Optional[int] = ..., digest: _Optional[bytes] = ..., evaluates: bool = ..., download_mbit_s: _Optional[float] = ..., limit_s: _Optional[float] = ...) -> None: ...

class UploadOrder(_message.Message):
    __slots__ = ("ap", "train_order_id", "upload_mbit_s", "keeps_model", "free", "message_bytes", "evaluates", "limit_s", "base_digest", "plain")
    AP_FIELD_NUMBER: _ClassVar[int]
    TRAIN_ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_MBIT_S_FIELD_NUMBER: _ClassVar[int]
    KEEPS_MODEL_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    EVALUATES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    BASE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    PLAIN_FIELD_NUMBER: _ClassVar[int]
    ap: int
    train_order_id: str
    upload_mbit_s: float
    keeps_model: bool
    free: bool
    message_bytes: int
    evaluates: bool
    limit_s: float
    base_digest: bytes
    plain: bool
    def __init__(self, ap: _Optional[int] = ..., train_order_id: _Optional[str] = ..., upload_mbit_s: _Optional[float] = ..., keeps_model: bool = ..., free: bool = ..., message_bytes: _Optional[int] = ..., evaluates: bool = ..., limit_s: _Optional[float] = ..., base_digest: _Optional[bytes] = ..., plain: bool = ...) -> None: ...

class DiscardOrder(_message.Message):
    __slots__ = ("train_order_id", "reason", "keeps_model")
    TRAIN_ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    KEEPS_MODEL_FIELD_NUMBER: _ClassVar[int]
    train_order_id: str
    reason: str
    keeps_model: bool
    def __init__(self, train_order_id: _Optional[str] = ..., reason: _Optional[str] = ..., keeps_model: bool = ...) -> None: ...

class SyncOrder(_message.Message):
    __slots__ = ("ap", "digest", "download_mbit_s", "free")
    AP_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    DOWNLOAD_MBIT_S_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    ap: int
    digest: bytes
    download_mbit_s: float
    free: bool
    def __init__(self, ap: _Optional[int] = ..., digest: _Optional[bytes] = ..., download_mbit_s: _Optional[float] = ..., free: bool = ...) -> None: ...

class ExchangeOrder(_message.Message):
    __slots__ = ("neighbours", "own_weight", "training", "start_digest", "download_mbit_s", "exchange_mbit_s", "deadline_s")
    class Neighbour(_message.Message):
        __slots__ = ("device", "name", "address", "weight")
        DEVICE_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        WEIGHT_FIELD_NUMBER: _ClassVar[int]
        device: int
        name: str
        address: str
        weight: float
        def __init__(self, device: _Optional[int] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., weight: _Optional[float] = ...) -> None: ...
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    OWN_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    START_DIGEST_FIELD_NUMBER: _ClassVar[int]
    DOWNLOAD_MBIT_S_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_MBIT_S_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    neighbours: _containers.RepeatedCompositeFieldContainer[ExchangeOrder.Neighbour]
    own_weight: float
    training: LocalTraining
    start_digest: bytes
    download_mbit_s: float
    exchange_mbit_s: float
    deadline_s: float
    def __init__(self, neighbours: _Optional[_Iterable[_Union[ExchangeOrder.Neighbour, _Mapping]]] = ..., own_weight: _Optional[float] = ..., training: _Optional[_Union[LocalTraining, _Mapping]] = ..., start_digest: _Optional[bytes] = ..., download_mbit_s: _Optional[float] = ..., exchange_mbit_s: _Optional[float] = ..., deadline_s: _Optional[float] = ...) -> None: ...

class IdleOrder(_message.Message):
    __slots__ = ("present",)
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    present: bool
    def __init__(self, present: bool = ...) -> None: ...

class ClockProbe(_message.Message):
    __slots__ = ("probe",)
    PROBE_FIELD_NUMBER: _ClassVar[int]
    probe: int
    def __init__(self, probe: _Optional[int] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("reason", "drain_s", "resumes_at")
    REASON_FIELD_NUMBER: _ClassVar[int]
    DRAIN_S_FIELD_NUMBER: _ClassVar[int]
    RESUMES_AT_FIELD_NUMBER: _ClassVar[int]
    reason: str
    drain_s: float
    resumes_at: int
    def __init__(self, reason: _Optional[str] = ..., drain_s: _Optional[float] = ..., resumes_at: _Optional[int] = ...) -> None: ...

class ModelReply(_message.Message):
    __slots__ = ("order_id", "digest", "sent_digest", "blob", "refusal")
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SENT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    order_id: str
    digest: bytes
    sent_digest: bytes
    blob: bytes
    refusal: str
    def __init__(self, order_id: _Optional[str] = ..., digest: _Optional[bytes] = ..., sent_digest: _Optional[bytes] = ..., blob: _Optional[bytes] = ..., refusal: _Optional[str] = ...) -> None: ...

class ModelReceipt(_message.Message):
    __slots__ = ("order_id", "digest", "refusal")
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    order_id: str
    digest: bytes
    refusal: str
    def __init__(self, order_id: _Optional[str] = ..., digest: _Optional[bytes] = ..., refusal: _Optional[str] = ...) -> None: ...

class Silence(_message.Message):
    __slots__ = ("on",)
    ON_FIELD_NUMBER: _ClassVar[int]
    on: bool
    def __init__(self, on: bool = ...) -> None: ...

class DutySchedule(_message.Message):
    __slots__ = ("levels", "block_s")
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_S_FIELD_NUMBER: _ClassVar[int]
    levels: _containers.RepeatedScalarFieldContainer[str]
    block_s: float
    def __init__(self, levels: _Optional[_Iterable[str]] = ..., block_s: _Optional[float] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("device", "spool_uuid", "records")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    SPOOL_UUID_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    device: str
    spool_uuid: str
    records: _containers.RepeatedCompositeFieldContainer[Record]
    def __init__(self, device: _Optional[str] = ..., spool_uuid: _Optional[str] = ..., records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("seq", "kind", "payload")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    seq: int
    kind: int
    payload: bytes
    def __init__(self, seq: _Optional[int] = ..., kind: _Optional[int] = ..., payload: _Optional[bytes] = ...) -> None: ...

class DrainReply(_message.Message):
    __slots__ = ("through_seq",)
    THROUGH_SEQ_FIELD_NUMBER: _ClassVar[int]
    through_seq: int
    def __init__(self, through_seq: _Optional[int] = ...) -> None: ...
