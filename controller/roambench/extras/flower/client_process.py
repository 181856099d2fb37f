"""A ClientApp as a device's program: Flower messages in, Flower messages out.

Run by `agent.orders.program_host`, in an interpreter that has flwr and what the app imports: nothing of
roambench is imported here. Where the settings have a `model`, messages are flat models, as
`agent.orders.program_models` says: the app trains for a system of ours, or scores its models.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_STATE = "context-state.bin"
_MOST_LEFT_OUT = 16  # sentences about one batch


def load(settings: dict[str, Any], folder: Path) -> Callable[[bytes], bytes]:
    """The app's answer to a serialised message; the context's state is kept in `folder` between them."""
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"  # read when flwr is imported
    os.environ.setdefault("FLWR_HOME", str(folder / "flwr"))

    from flwr.app import Context, Error, Message, RecordDict
    from flwr.clientapp.client_app import LoadClientAppError
    from flwr.common.serde import (
        message_from_proto,
        message_to_proto,
        recorddict_from_proto,
        recorddict_to_proto,
    )
    from flwr.proto.message_pb2 import Message as ProtoMessage
    from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict
    from flwr.supercore.object_ref import load_app

    app = load_app(settings["clientapp"], LoadClientAppError, settings["folder"])
    load_optimizers()
    state_file = folder / _STATE

    def context_of(node_id: int, node_config: dict[str, Any], state: Any) -> Any:
        return Context(settings["run_id"], node_id, node_config, state, settings["run_config"])

    state = RecordDict()
    if state_file.exists():
        state = recorddict_from_proto(ProtoRecordDict.FromString(state_file.read_bytes()))
    context = context_of(settings["node_id"], settings["node_config"], state)

    def ask(message: Any) -> Any:
        reply = app(message, context)
        unfinished = state_file.with_suffix(".part")
        unfinished.write_bytes(recorddict_to_proto(context.state).SerializeToString())
        unfinished.replace(state_file)
        return reply

    if "model" in settings:
        form, turns = ModelForm(settings["model"]), itertools.count(1)

        def train_or_score(asked: bytes) -> bytes:
            line, _, model = asked.partition(b"\n")
            about = json.loads(line)
            if "train" in about:
                seed_draws(about["train"]["seed"])
                turn = about["train"]["step"] + 1
                return form.trained(ask(form.message("train", turn, settings["node_id"], model)))
            contents, turn = {}, next(turns)
            for node_id, node_config in settings["scores"]:
                seed_draws(settings["seed"])
                message = form.message("evaluate", turn, node_id, model)
                reply = app(message, context_of(node_id, node_config, RecordDict()))
                contents[f"node {node_id} in evaluation {turn}"] = content_of(reply)
            return form.scored(contents)

        return train_or_score

    def answer(asked: bytes) -> bytes:
        message = message_from_proto(ProtoMessage.FromString(asked))
        seed_draws(f"{settings['seed']} {settings['node_id']} {message.metadata.message_id}")
        try:
            reply = ask(message)
        except Exception as error:  # as Flower's own runner has it
            reply = Message(Error(2, f"{type(error)}:<'{error}'>"), reply_to=message)
        body: bytes = message_to_proto(reply).SerializeToString()
        return body

    return answer


def load_optimizers() -> None:
    """Load now, where the app has torch, what its first optimizer loads: a compiler, for seconds that would
    be the first training's."""
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        with contextlib.suppress(Exception):  # then the app's own would fail, too, and say so
            torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0).zero_grad()


def seed_draws(seed: int | str) -> None:
    """Begin what apps draw from: Python's, NumPy's and torch's own generators, where they are loaded."""
    random.seed(seed)
    number = random.getrandbits(32)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(number)


class ModelForm:
    """A flat model as the app's own message has it: the first one that its ServerApp sent to train."""

    def __init__(self, about: dict[str, Any]) -> None:
        self._first = base64.b64decode(about["first"])
        self._record, self._tensors = about["record"], about["tensors"]

    def message(self, action: str, turn: int, node: int, model: bytes) -> Any:
        """A message to train from the flat model, or to evaluate it, in that round of the app."""
        import numpy as np
        from flwr.app import Array, ArrayRecord, RecordDict
        from flwr.common.serde import message_from_proto
        from flwr.proto.message_pb2 import Message as ProtoMessage

        message = message_from_proto(ProtoMessage.FromString(self._first))
        numbers, begin, arrays = np.frombuffer(model, "<f4"), 0, ArrayRecord()
        before = message.content.array_records[self._record]
        for name, dtype, shape in self._tensors:
            if dtype is None:  # of integers: they do not travel
                arrays[name] = before[name]
                continue
            end = begin + int(np.prod(shape, dtype=np.int64))
            arrays[name] = Array(numbers[begin:end].astype(dtype).reshape(shape))
            begin = end
        content = RecordDict()
        for name, record in message.content.items():
            if "server-round" in record:
                record["server-round"] = turn
            written = name.replace("fitins.", "evaluateins.") if action == "evaluate" else name
            content[written] = arrays if name == self._record else record
        message.content = content
        about = {"_message_id": f"{action}-{turn}", "_dst_node_id": node}
        about |= {"_message_type": action, "_created_at": time.time()}
        if message.metadata.group_id.isdecimal():
            about["_group_id"] = str(turn)
        message.metadata.__dict__.update(about)
        return message

    def trained(self, reply: Any) -> bytes:
        """The reply's model, flat, behind its samples and its loss."""
        import numpy as np

        content = content_of(reply)
        records = list(content.array_records.values())
        if len(records) != 1 or list(records[0]) != [name for name, _, _ in self._tensors]:
            got = [list(record)[:8] for record in records]
            raise ValueError(f"its reply to train has the arrays {got}, expected the model's")
        pieces = []
        for name, dtype, shape in self._tensors:
            values = records[0][name].numpy() if dtype is not None else np.zeros(0)
            if dtype is not None and list(values.shape) != shape:
                raise ValueError(f"{name} of its reply to train has shape {values.shape}, expected {shape}")
            pieces.append(np.asarray(values, "<f4").ravel())
        metrics, examples = metrics_of(content)
        about = {"samples": int(examples), "loss": named(metrics, "loss")}
        return json.dumps(about).encode() + b"\n" + np.concatenate(pieces).tobytes()

    def scored(self, contents: dict[str, Any]) -> bytes:
        """The metrics of all replies' contents, weighed by their numbers of examples."""
        means, _, left_out = means_of(contents)
        if not means:
            raise ValueError("its ClientApp evaluates nothing: expected a metric to score models by")
        accuracy = named(means, "acc")
        if accuracy is not None and not 0.0 <= accuracy <= 1.0:
            accuracy = None
        about = {"accuracy": accuracy, "loss": named(means, "loss"), "metrics": means, "left_out": left_out}
        return json.dumps(about).encode()


def content_of(reply: Any) -> Any:
    """The content of a reply; ValueError for an error."""
    if not reply.has_content():
        raise ValueError(f"its ClientApp answered an error: {reply.error.reason}")
    return reply.content


def metrics_of(content: Any) -> tuple[dict[str, float], float]:
    """The metrics of a reply, of either interface, and its number of examples (1 where it says none)."""
    metrics: dict[str, float] = {}
    for records in (content.metric_records, content.config_records):
        for name, record in records.items():
            if "status" in name:
                continue
            for key, value in record.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    metrics[key] = float(value)
    examples = metrics.pop("num_examples", metrics.pop("num-examples", 1.0))
    if not 0.0 <= examples < math.inf:
        raise ValueError(f"expected a finite number of examples, got {examples:g}")
    return metrics, examples


def means_of(contents: dict[str, Any]) -> tuple[dict[str, float], dict[str, float], list[str]]:
    """The metrics' means over replies, weighed by their numbers of examples; these numbers; and a sentence
    for what is not finite, and so in no mean. `contents` are by what sentences call the reply."""
    sums: dict[str, float] = {}
    weights: dict[str, float] = {}
    examples: dict[str, float] = {}
    left_out = []
    for who, content in contents.items():
        try:
            metrics, examples[who] = metrics_of(content)
        except ValueError as error:
            raise ValueError(f"{who}: {error}") from None
        for name, value in metrics.items():
            if math.isfinite(value):
                sums[name] = sums.get(name, 0.0) + examples[who] * value
                weights[name] = weights.get(name, 0.0) + examples[who]
            else:
                left_out.append(f"{who}: {name[:40]} is {value}")
    means = {name: value / weights[name] for name, value in sums.items() if weights[name]}
    return means, examples, left_out[:_MOST_LEFT_OUT]


def named(metrics: dict[str, float], part: str) -> float | None:
    """The first metric with that in its name."""
    return next((value for name, value in metrics.items() if part in name.lower()), None)
