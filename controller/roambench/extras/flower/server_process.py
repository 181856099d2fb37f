"""A ServerApp in a separate process: its Grid hands messages to the controller, and gets the replies.

Run by `agent.orders.program_host`, in an interpreter that has flwr and what the app imports: nothing of
roambench is imported here. Frames to the controller:

    N  {"waited": bool}       which nodes are reachable? Answered by N [node ids]. `waited`: the app has slept
                              since it asked last, without sending anything: a step may pass
    M  header, "\\n", message  one message of a batch; the header is {"id", "node",
                              "type", "ttl_s"}
    B                         the batch is complete: carry it out. Answered by an M for each reply, whose
                              header is {"id"}, an X for each that has none, {"id", "code", "reason"}, and a B
    V  report                 what the replies of the batch say: {"failed": {id: reason}, "examples":
                              {id: number}, "metrics": {name: weighted mean}, "left_out": [sentence about
                              what is in no mean]}. Answered by V when the step is closed
    R                         the app is done
    E  reason                 it failed

Where the settings have `nodes`, the app runs until it sends its first message to train, which says what form
its models have. What is asked before, such as the first parameters, its ClientApp answers in this process:

    T  form, "\\n", model    a line of JSON, and the flat float32 model; then the process ends
"""

from __future__ import annotations

import base64
import json
import os
import runpy
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

#: Host seconds that messages of an app's several threads are waited for: they are one batch.
_TOGETHER_S = 0.3
_MOST_REASON_BYTES = 2000
#: The other half's file lies beside this one, which is run by its path.
_CLIENT = runpy.run_path(str(Path(__file__).with_name("client_process.py")))


class _Sleeps(threading.local):
    """A flag: this thread of the app has slept since it asked for nodes."""

    slept = False


def run(pipe: Any, settings: dict[str, Any]) -> None:
    """Run the app to its end."""
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"  # read when flwr is imported
    os.environ.setdefault("FLWR_HOME", os.path.join(os.getcwd(), "flwr"))  # noqa: PTH109, PTH118
    sleeps, sleep = _Sleeps(), time.sleep

    def seen_sleep(seconds: float) -> None:
        sleeps.slept = True
        sleep(seconds)

    time.sleep = seen_sleep  # type: ignore[assignment]  # before flwr takes it over by name

    from flwr.app import Context, RecordDict
    from flwr.serverapp.server_app import LoadServerAppError
    from flwr.supercore.object_ref import load_app

    identify(settings["run_id"])
    context = Context(settings["run_id"], 1, {}, RecordDict(), settings["run_config"])
    try:
        answers = FirstMessage(pipe, settings) if "nodes" in settings else FleetAnswers(pipe, sleeps)
        app = load_app(settings["serverapp"], LoadServerAppError, settings["folder"])
        _CLIENT["seed_draws"](settings["seed"])
        app(grid=grid_of(settings["run_id"], sleeps, answers.nodes, answers.carry), context=context)
    except (Exception, SystemExit) as error:  # of the user's own code
        import traceback

        traceback.print_exc()
        pipe.send(b"E", " ".join(f"{type(error).__name__}: {error}".split()).encode()[:_MOST_REASON_BYTES])
    else:
        pipe.send(b"R", b"")


def identify(run_id: int) -> None:
    """Say which run this process is of: messages ask for it, from flwr 1.36 on."""
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ModuleNotFoundError:
        return
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run_id, 1, 1


def grid_of(
    run_id: int,
    sleeps: _Sleeps,
    nodes: Callable[[], list[int]],
    carry: Callable[[list[Any]], dict[str, Any]],
) -> Any:
    """A Grid of the reachable `nodes`; `carry` gives the replies to a batch of messages, by their ids.
    Replies come sorted by node: their order changes the bits of what is summed."""
    from flwr.app import Message
    from flwr.serverapp import Grid
    from flwr.supercore.run import Run

    class AppGrid(Grid):  # type: ignore[misc]  # flwr has no types here
        def __init__(self) -> None:
            self._run = Run.create_empty(run_id)
            self._turn = threading.Lock()  # of the pipe
            self._gate = threading.Condition()
            self._waiting: list[Any] = []
            self._is_led = False
            self._replies: dict[str, Any] = {}
            self._sent = 0

        def set_run(self, run: Any) -> None:
            self._run = run

        @property
        def run(self) -> Any:
            return self._run

        def create_message(
            self, content: Any, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
        ) -> Any:
            return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

        def get_node_ids(self) -> list[int]:
            with self._turn:
                return nodes()

        def push_messages(self, messages: Iterable[Any]) -> list[str]:
            sent = list(messages)
            if not sent:
                return []
            sleeps.slept = False
            if threading.current_thread() is threading.main_thread():
                self._number(sent)
                self._carry(sent)
            else:
                self._carry_together(sent)
            return [message.metadata.message_id for message in sent]

        def pull_messages(self, message_ids: Iterable[str]) -> list[Any]:
            with self._gate:
                found = [self._replies.pop(name) for name in list(message_ids) if name in self._replies]
            return sorted(found, key=lambda reply: int(reply.metadata.src_node_id))

        def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> list[Any]:
            return self.pull_messages(self.push_messages(messages))

        def _number(self, sent: list[Any]) -> None:
            for message in sent:
                self._sent += 1
                about = {"_message_id": f"{self._sent:08d}", "_run_id": self._run.run_id, "_src_node_id": 1}
                message.metadata.__dict__.update(about)

        def _carry_together(self, sent: list[Any]) -> None:
            """Strategies of the older interface send each message from another thread."""
            with self._gate:
                self._waiting += sent
                leads, self._is_led = not self._is_led, True
            if leads:
                known = 0
                while known < len(self._waiting):
                    known = len(self._waiting)
                    threading.Event().wait(_TOGETHER_S)
                with self._gate:
                    batch = sorted(self._waiting, key=lambda message: int(message.metadata.dst_node_id))
                    self._waiting, self._is_led = [], False
                    self._number(batch)
                self._carry(batch)
            with self._gate:
                self._gate.wait_for(lambda: all(m.metadata.message_id in self._replies for m in sent))

        def _carry(self, batch: list[Any]) -> None:
            with self._turn:
                replies = carry(batch)
            with self._gate:
                self._replies |= replies
                self._gate.notify_all()

    return AppGrid()


class FleetAnswers:
    """Nodes and replies are the controller's."""

    def __init__(self, pipe: Any, sleeps: _Sleeps) -> None:
        self._pipe, self._sleeps = pipe, sleeps

    def nodes(self) -> list[int]:
        """The nodes that are reachable now."""
        waited, self._sleeps.slept = self._sleeps.slept, False
        self._pipe.send(b"N", json.dumps({"waited": waited}).encode())
        nodes: list[int] = json.loads(self._received()[1])
        return nodes

    def carry(self, batch: list[Any]) -> dict[str, Any]:
        """The replies of devices, and errors for those that gave none."""
        from flwr.app import Error, Message
        from flwr.common.serde import message_to_proto

        for message in batch:
            known = message.metadata
            about = {"id": known.message_id, "node": known.dst_node_id, "type": known.message_type}
            about["ttl_s"] = float(known.ttl)
            sent = message_to_proto(message).SerializeToString(deterministic=True)
            self._pipe.send(b"M", json.dumps(about).encode() + b"\n" + sent)
        self._pipe.send(b"B", b"")
        by_id = {message.metadata.message_id: message for message in batch}
        replies: dict[str, Any] = {}
        while (frame := self._received())[0] != b"B":
            header, _, body = frame[1].partition(b"\n")
            about = json.loads(header)
            if frame[0] == b"M":
                reply = readable(body, by_id[about["id"]])
            else:
                reply = Message(Error(about["code"], about["reason"]), reply_to=by_id[about["id"]])
            replies[about["id"]] = reply
        self._pipe.send(b"V", json.dumps(report_of(replies, by_id)).encode())
        self._received()
        return replies

    def _received(self) -> tuple[bytes, bytes]:
        frame: tuple[bytes, bytes] | None = self._pipe.receive()
        if frame is None:
            os._exit(1)  # the controller is gone
        return frame


class FirstMessage:
    """Nodes that the app's ClientApp answers for, in this process, until a message to train comes."""

    def __init__(self, pipe: Any, settings: dict[str, Any]) -> None:
        from flwr.app import Context, RecordDict
        from flwr.clientapp.client_app import LoadClientAppError
        from flwr.supercore.object_ref import load_app

        self._pipe = pipe
        self._client = load_app(settings["clientapp"], LoadClientAppError, settings["folder"])
        self._contexts = {
            node: Context(settings["run_id"], node, config, RecordDict(), settings["run_config"])
            for node, config in settings["nodes"]
        }

    def nodes(self) -> list[int]:
        """All nodes."""
        return list(self._contexts)

    def carry(self, batch: list[Any]) -> dict[str, Any]:
        """The ClientApp's replies. A message to train ends this process."""
        replies = {}
        for message in batch:
            if message.metadata.message_type.partition(".")[0] == "train":
                try:
                    self._pipe.send(b"T", form_of(message))
                except Exception as error:
                    self._pipe.send(b"E", str(error).encode()[:_MOST_REASON_BYTES])
                os._exit(0)
            node = message.metadata.dst_node_id
            replies[message.metadata.message_id] = self._client(message, self._contexts[node])
        return replies


def readable(body: bytes, asked: Any) -> Any:
    """The reply; an error where the device sent what is none. Who it is of is not its own to say."""
    from flwr.app import Error, Message
    from flwr.common.serde import message_from_proto
    from flwr.proto.message_pb2 import Message as ProtoMessage

    try:
        reply = message_from_proto(ProtoMessage.FromString(body))
        if not (reply.has_content() or reply.has_error()):
            raise ValueError("neither content nor error")
    except Exception as error:
        text = f"its reply cannot be read: {type(error).__name__}: {error}"
        reply = Message(Error(8, text[:300]), reply_to=asked)
    known = asked.metadata
    if reply.has_content() and (wrong := wrong_numbers(reply.content)):
        text = f"{addressee(asked)}: {wrong}: its reply is left out"
        reply = Message(Error(8, text[:300]), reply_to=asked)
    reply.metadata.__dict__["_reply_to_message_id"] = known.message_id
    reply.metadata.__dict__["_src_node_id"] = known.dst_node_id
    return reply


def addressee(asked: Any) -> str:
    """The node that a message went to, and its round, if the app says any."""
    rounds = [
        found["server-round"] for found in asked.content.config_records.values() if "server-round" in found
    ]
    turn = rounds[0] if rounds else asked.metadata.group_id
    return f"node {asked.metadata.dst_node_id}" + (f" in round {turn}" if turn else "")


def wrong_numbers(content: Any) -> str:
    """Return what no model and no weight may hold, "" if nothing. Arrays of another library are its own."""
    import numpy as np

    try:
        _CLIENT["metrics_of"](content)
    except ValueError as error:
        return str(error)
    for arrays in content.array_records.values():
        for name, array in arrays.items():
            try:
                finite = np.isfinite(array.numpy()).all()
            except Exception:
                continue
            if not finite:
                return f"{name} holds NaN or infinity"
    return ""


def report_of(replies: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """Summarise a batch's replies: errors, numbers of examples, and the metrics' means by these."""
    failed: dict[str, str] = {}
    names: dict[str, str] = {}
    contents: dict[str, Any] = {}
    for name, reply in sorted(replies.items()):
        if reply.has_error():
            failed[name] = str(reply.error.reason)[:300]
        else:
            whose = f"{addressee(asked[name])}, message {name}"
            names[whose], contents[whose] = name, reply.content
    means, examples, left_out = _CLIENT["means_of"](contents)
    numbers = {names[whose]: number for whose, number in examples.items()}
    return {"failed": failed, "examples": numbers, "metrics": means, "left_out": left_out}


def form_of(message: Any) -> bytes:
    """The message without the numbers of its model, how that is cut up, and the numbers."""
    import numpy as np
    from flwr.app import Array, ArrayRecord
    from flwr.common.serde import message_to_proto

    records = message.content.array_records
    if len(records) != 1:
        raise ValueError(f"its first message to train has {len(records)} array records, expected one")
    ((record, arrays),) = records.items()
    tensors: list[list[Any]] = []
    kept: dict[str, list[Any]] = {}
    pieces, left = [np.zeros(0, "<f4")], ArrayRecord()
    for name, array in arrays.items():
        values = array.numpy()
        if values.dtype.kind == "f":
            tensors.append([name, values.dtype.str, list(values.shape)])
            pieces.append(np.asarray(values, "<f4").ravel())
            left[name] = Array(np.zeros(0, values.dtype))
        else:
            tensors.append([name, None, list(values.shape)])
            kept[name] = [values.dtype.str, list(values.shape), base64.b64encode(values.tobytes()).decode()]
            left[name] = array
    model = np.concatenate(pieces)
    if not model.size:
        raise ValueError("its first message to train has no floating-point numbers: expected a model of such")
    message.content[record] = left
    first = message_to_proto(message).SerializeToString(deterministic=True)
    form = {"first": base64.b64encode(first).decode(), "record": record, "tensors": tensors}
    return json.dumps({"form": form, "kept": kept}).encode() + b"\n" + model.tobytes()
