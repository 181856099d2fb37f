"""A ClientApp as a device's program: Flower messages in, Flower messages out.

Run by `agent.orders.program_host`, in an interpreter that has flwr and what the app imports: nothing of
roambench is imported here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

_STATE = "context-state.bin"


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
    state_file = folder / _STATE
    state = RecordDict()
    if state_file.exists():
        state = recorddict_from_proto(ProtoRecordDict.FromString(state_file.read_bytes()))
    context = Context(
        settings["run_id"], settings["node_id"], settings["node_config"], state, settings["run_config"]
    )

    def answer(asked: bytes) -> bytes:
        message = message_from_proto(ProtoMessage.FromString(asked))
        try:
            reply = app(message, context)
        except Exception as error:  # as Flower's own runner has it
            reply = Message(Error(2, f"{type(error)}:<'{error}'>"), reply_to=message)
        else:
            unfinished = state_file.with_suffix(".part")
            unfinished.write_bytes(recorddict_to_proto(context.state).SerializeToString())
            unfinished.replace(state_file)
        body: bytes = message_to_proto(reply).SerializeToString()
        return body

    return answer
