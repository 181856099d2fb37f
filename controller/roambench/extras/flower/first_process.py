"""Runs a ServerApp until it sends its first message to train: the form of the app's models, and their first
numbers.

Run by `agent.orders.program_host`, in an interpreter that has flwr and what the app imports: nothing of
roambench is imported here. What is asked before, such as the first parameters, the app's ClientApp answers in
this process. Frames to the controller: T with a line of JSON and the flat float32 model behind it, or E with
a reason.
"""

from __future__ import annotations

import base64
import json
import os
import random
import sys
from collections.abc import Iterable
from typing import Any


def run(pipe: Any, settings: dict[str, Any]) -> None:
    """Send the first message's form, or why there is none."""
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"  # read when flwr is imported
    os.environ.setdefault("FLWR_HOME", os.path.join(os.getcwd(), "flwr"))  # noqa: PTH109, PTH118

    from flwr.app import Context, RecordDict
    from flwr.clientapp.client_app import LoadClientAppError
    from flwr.serverapp.server_app import LoadServerAppError
    from flwr.supercore.object_ref import load_app
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = settings["run_id"], 1, 1
    try:
        client = load_app(settings["clientapp"], LoadClientAppError, settings["folder"])
        server = load_app(settings["serverapp"], LoadServerAppError, settings["folder"])
        random.seed(settings["seed"])
        number = random.getrandbits(32)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(number)
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(number)
        context = Context(settings["run_id"], 1, {}, RecordDict(), settings["run_config"])
        server(grid=_grid(pipe, settings, client), context=context)
    except Exception as error:  # of the user's own code
        import traceback

        traceback.print_exc()
        pipe.send(b"E", " ".join(f"{type(error).__name__}: {error}".split()).encode()[:2000])
    else:
        pipe.send(b"E", b"it ended without a message to train")


def _grid(pipe: Any, settings: dict[str, Any], client: Any) -> Any:
    from flwr.app import Context, Message, RecordDict
    from flwr.serverapp import Grid
    from flwr.supercore.run import Run

    contexts = {
        node: Context(settings["run_id"], node, config, RecordDict(), settings["run_config"])
        for node, config in settings["nodes"]
    }

    class FirstMessage(Grid):  # type: ignore[misc]  # flwr has no types here
        def __init__(self) -> None:
            self._run = Run.create_empty(settings["run_id"])
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
            return list(contexts)

        def push_messages(self, messages: Iterable[Any]) -> list[str]:
            names = []
            for message in messages:
                self._sent += 1
                about = {"_message_id": f"{self._sent:08d}", "_run_id": settings["run_id"], "_src_node_id": 1}
                message.metadata.__dict__.update(about)
                if message.metadata.message_type.partition(".")[0] == "train":
                    try:
                        pipe.send(b"T", _form(message))
                    except Exception as error:
                        pipe.send(b"E", str(error).encode()[:2000])
                    os._exit(0)
                reply = client(message, contexts[message.metadata.dst_node_id])
                self._replies[message.metadata.message_id] = reply
                names.append(message.metadata.message_id)
            return names

        def pull_messages(self, message_ids: Iterable[str]) -> list[Any]:
            return [self._replies.pop(name) for name in message_ids if name in self._replies]

        def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> list[Any]:
            return self.pull_messages(self.push_messages(messages))

    return FirstMessage()


def _form(message: Any) -> bytes:
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
