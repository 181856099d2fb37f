"""Run by an interpreter with flwr: an app on a Grid of this one process, and nothing of roambench."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from pathlib import Path

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
sys.path.append(str(Path(__file__).parents[2] / "controller/roambench/extras/flower"))

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp.client_app import LoadClientAppError
from flwr.common.config import get_fused_config_from_dir, get_project_config
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.server.run_serverapp import run as run_serverapp
from flwr.serverapp import Grid
from flwr.supercore.object_ref import load_app
from flwr.supercore.run import Run
from server_process import identify

ABOUT = json.loads(sys.argv[1])
NODES = range(1000, 1000 + ABOUT["nodes"])


class Direct(Grid):
    def __init__(self, app, contexts):
        self.app, self.contexts = app, contexts
        self._run, self.replies, self.lock, self.sent = Run.create_empty(1), {}, threading.Lock(), 0

    def set_run(self, run):
        self._run = run

    @property
    def run(self):
        return self._run

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None):
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self):
        return list(NODES)

    def push_messages(self, messages):
        with self.lock:
            names = []
            for message in list(messages):
                self.sent += 1
                name, node = f"{self.sent:08d}", message.metadata.dst_node_id
                message.metadata.__dict__.update(_message_id=name, _run_id=1, _src_node_id=1)
                asked = message_from_proto(message_to_proto(message))
                try:
                    reply = self.app(asked, self.contexts[node])
                except Exception as error:
                    reply = Message(Error(2, f"{type(error)}:<'{error}'>"), reply_to=message)
                self.replies[name] = message_from_proto(message_to_proto(reply))
                self.replies[name].metadata.__dict__["_src_node_id"] = node
                names.append(name)
            return names

    def pull_messages(self, message_ids):
        with self.lock:
            found = [self.replies.pop(name) for name in list(message_ids) if name in self.replies]
        return sorted(found, key=lambda reply: reply.metadata.src_node_id)

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(messages))


def main() -> None:
    folder = Path(ABOUT["app"])
    components = get_project_config(folder)["tool"]["flwr"]["app"]["components"]
    config = get_fused_config_from_dir(folder, ABOUT["config"])
    app = load_app(components["clientapp"], LoadClientAppError, folder)
    contexts = {
        node: Context(1, node, {"partition-id": place, "num-partitions": len(NODES)}, RecordDict(), config)
        for place, node in enumerate(NODES)
    }
    identify(1)
    random.seed(ABOUT["seed"])
    run_serverapp(
        Direct(app, contexts), Context(1, 1, {}, RecordDict(), config), str(folder), components["serverapp"]
    )


main()
