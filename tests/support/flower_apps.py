"""Flower apps as their own templates write them, and the same app on a Grid of one process."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from roambench.experiment.load import WrittenExperiment, load_experiment
from roambench.experiment.sections import Experiment
from roambench.runner.composition import run_experiment
from roambench.runs.folder import RunFolder

#: An environment of tests that has flwr: `make build/flower`, or one of another release.
PYTHON = Path(os.environ.get("ROAMBENCH_FLWR", str(Path(__file__).parents[2] / "build/flower/bin/python")))
DIRECT = Path(__file__).with_name("flower_direct.py")
SIMULATION = Path(__file__).with_name("flower_simulation.py")
#: Names an interpreter with torch and flwr[simulation].
SIMULATION_PYTHON = "ROAMBENCH_FLOWER_PYTHON"

PROJECT = """\
[project]
name = "{name}"
version = "1.0.0"
description = "A test"
license = "Apache-2.0"
dependencies = {needs}
[tool.flwr.app]
publisher = "roambench"
[tool.flwr.app.components]
serverapp = "{package}.server_app:app"
clientapp = "{package}.client_app:app"
[tool.flwr.app.config]
"""

#: Least squares on each node's own rows: the state counts, a mod clips, and what is asked of it may be bytes.
NUMPY_CLIENT = '''
import os
import time

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod

LOCAL_PRIVACY = LocalDpMod(clipping_norm=2.0, sensitivity=0.1, epsilon=10.0, delta=0.1)


def data(context):
    draw = np.random.default_rng(context.node_config["partition-id"])
    x = draw.normal(size=(20 + context.node_config["partition-id"], 6)).astype(np.float32)
    return x, (x @ np.arange(6, dtype=np.float32) + draw.normal(size=len(x))).astype(np.float32)


def clip(message, context, call_next):
    reply = call_next(message, context)
    if reply.has_content():
        for record in reply.content.array_records.values():
            for name, array in list(record.items()):
                record[name] = type(array)(np.clip(array.numpy(), -3.0, 3.0))
    return reply


def private(message, context, call_next):
    """Flower's own mods: the update is clipped and drawn noise added, and both are clipped again."""
    if context.run_config["strategy"] != "private":
        return call_next(message, context)
    np.random.seed(100 * message.content["config"]["server-round"] + context.node_config["partition-id"])
    return fixedclipping_mod(message, context, lambda m, c: LOCAL_PRIVACY(m, c, call_next))


app = ClientApp(mods=[clip])


@app.train(mods=[private])
def train(message, context):
    misfortune = str(context.run_config["misfortune"])
    part = context.node_config["partition-id"]
    if f"die:{part};" in misfortune:
        os._exit(7)
    if f"hang:{part};" in misfortune:
        for _ in range(20):
            if os.fork() == 0:
                os.setsid()
                break
        time.sleep(10_000)
    if f"garbage:{part};" in misfortune:
        os.write(4, b"A" + (7).to_bytes(8, "big") + bytes([255] * 7))
        os._exit(0)
    if f"raise:{part};" in misfortune and message.content["config"]["server-round"] == 2:
        raise ValueError("mine")
    w = message.content["arrays"]["w"].numpy()
    x, y = data(context)
    lr = np.asarray(message.content["config"]["lr"], w.dtype)
    start, mu = w, np.asarray(message.content["config"].get("proximal-mu", 0.0), w.dtype)
    for _ in range(3 if mu else 1):
        w = w - lr * ((x.T @ (x @ w - y) / len(x)).astype(w.dtype) + mu * (w - start))
    if "draw;" in misfortune:
        w = w + np.random.rand(6).astype(w.dtype)
    seen = context.state["seen"]["times"] + 1 if "seen" in context.state else 1
    context.state["seen"] = MetricRecord({"times": seen})
    if f"huge:{part};" in misfortune:
        w = np.zeros(10**6)
    if f"nan:{part};" in misfortune:
        w = w * np.asarray(np.nan, w.dtype)
    arrays = ArrayRecord()
    arrays["w"] = type(message.content["arrays"]["w"])(w)
    count = float("nan") if f"uncounted:{part};" in misfortune else len(x)
    metrics = MetricRecord({"num-examples": count, "seen": float(seen)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message, context):
    w = message.content["arrays"]["w"].numpy()
    x, y = data(context)
    accuracy = float(np.mean(np.abs(x @ w - y) < 2.0))
    metrics = {"eval_acc": accuracy, "eval_loss": float(np.mean((x @ w - y) ** 2)), "num-examples": len(x)}
    metrics["accuracy"] = accuracy  # a column of ours
    if f"unscored:{context.node_config['partition-id']};" in str(context.run_config["misfortune"]):
        metrics["eval_loss"] = float("inf")
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)


@app.query()
def query(message, context):
    """Trees, as XGBoost's apps send them: bytes, longer from node to node."""
    before = message.content["model"]["trees"]
    mine = bytes([context.node_config["partition-id"]]) * (7 + context.node_config["partition-id"])
    return Message(RecordDict({"model": ConfigRecord({"trees": before + mine})}), reply_to=message)
'''
NUMPY_SERVER = '''
import time

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping, FedAdam, FedAvg, FedProx

app = ServerApp()


class Prox(FedProx):
    def __init__(self, **more):
        super().__init__(proximal_mu=0.5, **more)


def clipped(**more):
    return DifferentialPrivacyClientSideFixedClipping(FedAvg(**more), 0.0, 1.0, more["min_available_nodes"])


class Own(FedAvg):
    """Another rate in each round, a message for each node, and the plain mean."""

    def configure_train(self, server_round, arrays, config, grid):
        for message in super().configure_train(server_round, arrays, config, grid):
            about = {"server-round": server_round, "lr": 0.1 + 0.05 * server_round}
            content = RecordDict({"arrays": arrays, "config": ConfigRecord(about)})
            yield Message(content, message.metadata.dst_node_id, message.metadata.message_type)

    def aggregate_train(self, server_round, replies):
        good = [reply.content for reply in replies if not reply.has_error()]
        w = np.mean([content["arrays"]["w"].numpy() for content in good], axis=0, dtype=np.float32)
        arrays = ArrayRecord()
        arrays["w"] = Array(w)
        return arrays, MetricRecord({"nodes": len(good)})


@app.main()
def main(grid, context):
    config = context.run_config
    arrays = ArrayRecord()
    arrays["w"] = Array(np.zeros(6, np.float32))
    if config["strategy"] == "bytes":
        trees = b""
        for _ in range(config["num-server-rounds"]):
            content = RecordDict({"model": ConfigRecord({"trees": trees})})
            nodes = list(grid.get_node_ids())
            names = list(grid.push_messages(Message(content, node, "query") for node in nodes))
            replies = list(grid.pull_messages(names))
            while len(replies) < len(names):
                time.sleep(0.1)
                replies += grid.pull_messages(names)
            trees = b"".join(sorted(reply.content["model"]["trees"] for reply in replies))
        np.savez("final.npz", trees=np.frombuffer(trees, np.uint8))
        return
    kinds = {"fedavg": FedAvg, "fedadam": FedAdam, "fedprox": Prox, "private": clipped, "own": Own}
    strategy = kinds[config["strategy"]](
        fraction_evaluate=config["fraction-evaluate"], min_available_nodes=config["nodes"]
    )
    result = strategy.start(
        grid=grid,
        initial_arrays=arrays,
        train_config=ConfigRecord({"lr": 0.1}),
        num_rounds=config["num-server-rounds"],
    )
    rounds = sorted(result.train_metrics_clientapp)
    metrics = [sorted(result.train_metrics_clientapp[r].items()) for r in rounds]
    metrics += [sorted(result.evaluate_metrics_clientapp.get(r, {}).items()) for r in rounds]
    np.savez("final.npz", w=result.arrays["w"].numpy(), metrics=np.array(repr(metrics)))
'''
NUMPY_CONFIG = """\
num-server-rounds = 3
fraction-evaluate = 1.0
nodes = 2
strategy = "fedavg"
misfortune = ""
"""

#: The older interface: a NumPyClient made for each message, and strategies that send from threads.
LEGACY_CLIENT = """
import numpy as np
from flwr.client import ClientApp, NumPyClient


class Mine(NumPyClient):
    def __init__(self, part):
        draw = np.random.default_rng(part)
        self.x = draw.normal(size=(20 + part, 6)).astype(np.float32)
        self.y = (self.x @ np.arange(6, dtype=np.float32)).astype(np.float32)

    def fit(self, parameters, config):
        w = parameters[0] - np.float32(0.1) * (self.x.T @ (self.x @ parameters[0] - self.y) / len(self.x))
        return [w.astype(np.float32)], len(self.x), {}

    def evaluate(self, parameters, config):
        return float(np.mean((self.x @ parameters[0] - self.y) ** 2)), len(self.x), {"accuracy": 0.5}


def client_fn(context):
    return Mine(context.node_config["partition-id"]).to_client()


app = ClientApp(client_fn=client_fn)
"""
LEGACY_SERVER = """
import numpy as np
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg


class Kept(FedAvg):
    def aggregate_fit(self, server_round, results, failures):
        parameters, metrics = super().aggregate_fit(server_round, results, failures)
        np.savez("final.npz", w=parameters_to_ndarrays(parameters)[0])
        return parameters, metrics


def server_fn(context):
    start = ndarrays_to_parameters([np.zeros(6, np.float32)])
    config = ServerConfig(num_rounds=context.run_config["num-server-rounds"])
    return ServerAppComponents(strategy=Kept(initial_parameters=start), config=config)


app = ServerApp(server_fn=server_fn)
"""

#: The shape of Flower's quickstart for PyTorch: its tutorial's `view`, a loader, batch statistics.
TORCH_CLIENT = """
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from quick.task import Net, load_data

app = ClientApp()
torch.set_num_threads(1)


@app.train()
def train(msg, context):
    net = Net()
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    loader = load_data(context.node_config["partition-id"])
    total = 0.0
    for images, labels in loader:
        net.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        with torch.no_grad():  # by hand: torch.optim loads a compiler, seconds in each process
            for parameter in net.parameters():
                parameter -= msg.content["config"]["lr"] * parameter.grad
        total += loss.item()
    metrics = {"train_loss": total / len(loader), "num-examples": len(loader.dataset)}
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord(metrics)})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg, context):
    net = Net()
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    net.eval()
    images, labels = load_data(context.node_config["partition-id"]).dataset.tensors
    with torch.no_grad():
        right = (net(images).argmax(1) == labels).float().mean().item()
    metrics = {"eval_acc": right, "num-examples": len(labels)}
    return Message(content=RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)
"""
TORCH_TASK = """
import torch
from torch import nn
from torch.nn import functional


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3)
        self.norm = nn.BatchNorm2d(6)
        self.fc1 = nn.Linear(6 * 3 * 3, 10)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.norm(self.conv1(x))), 2)
        return self.fc1(x.view(-1, 6 * 3 * 3))


def load_data(part):
    draw = torch.Generator().manual_seed(part)
    labels = torch.randint(0, 10, (48,), generator=draw)
    images = torch.randn(48, 1, 8, 8, generator=draw) + labels.view(-1, 1, 1, 1) / 5
    rows = torch.utils.data.TensorDataset(images, labels)
    return torch.utils.data.DataLoader(rows, batch_size=16, shuffle=True, generator=draw)
"""
TORCH_SERVER = """
import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from quick.task import Net

app = ServerApp()


@app.main()
def main(grid, context):
    torch.manual_seed(1)
    strategy = FedAvg(fraction_evaluate=1.0)
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        train_config=ConfigRecord({"lr": 0.05}),
        num_rounds=context.run_config["num-server-rounds"],
    )
    np.savez("final.npz", **{k: v.numpy() for k, v in result.arrays.to_torch_state_dict().items()})
"""

APPS = {
    "least-squares": ({"server_app": NUMPY_SERVER, "client_app": NUMPY_CLIENT}, "squares", NUMPY_CONFIG),
    "legacy": (
        {"server_app": LEGACY_SERVER, "client_app": LEGACY_CLIENT},
        "legacy",
        "num-server-rounds = 2\n",
    ),
    "quick": (
        {"server_app": TORCH_SERVER, "client_app": TORCH_CLIENT, "task": TORCH_TASK},
        "quick",
        "num-server-rounds = 2\n",
    ),
}


def written_app(folder: Path, name: str) -> Path:
    """The app of that name in a folder of its own."""
    modules, package, config = APPS[name]
    return write_app(folder / name, package, modules, config, ["flwr"])


def write_app(app: Path, package: str, modules: Mapping[str, str], config: str, needs: Sequence[str]) -> Path:
    """Write a project with those modules in its package."""
    (app / package).mkdir(parents=True)
    about = PROJECT.format(name=app.name, package=package, needs=json.dumps(needs))
    (app / "pyproject.toml").write_text(about + config)
    (app / package / "__init__.py").write_text("")
    for module, text in modules.items():
        (app / package / f"{module}.py").write_text(text)
    return app


def values_of(app: Path, nodes: int, settings: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The values of an experiment that runs the app; `program` and `fleet` are added to."""
    program = {"name": "flower", "folder": str(app), "settings": dict(settings), "python": str(PYTHON)}
    program |= {"reachable": "everybody", **more.pop("program", {})}
    fleet = {"agents": nodes, **more.pop("fleet", {})}
    return {"systems": ["flower"], "fleet": fleet, "program": program, **more}


def experiment_of(values: Mapping[str, Any]) -> Experiment:
    return load_experiment(WrittenExperiment(dict(values), "test", Path.cwd()))


def played(values: Mapping[str, Any], runs: Path, fleet: str = "simulated") -> RunFolder:
    """The run of the one system that those values name."""
    (path,) = run_experiment(
        experiment_of(values), fleet=fleet, runs_dir=runs, console=Console(file=io.StringIO()), fresh=True
    )
    return RunFolder.open(path)


def direct(
    app: Path,
    folder: Path,
    nodes: int,
    seed: int,
    *,
    python: str = str(PYTHON),
    script: Path = DIRECT,
    **config: Any,
) -> dict[str, npt.NDArray[Any]]:
    """What the app leaves on a Grid of one process."""
    folder.mkdir()
    about = json.dumps({"app": str(app), "nodes": nodes, "seed": seed, "config": config})
    done = subprocess.run(
        [python, "-P", str(script), about], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return left_in(folder)


def simulated(app: Path, folder: Path, nodes: int, seed: int, **config: Any) -> dict[str, npt.NDArray[Any]]:
    """What the app leaves where Flower's own simulation runs it, in an environment with all of flwr."""
    python = os.environ[SIMULATION_PYTHON]
    return direct(app, folder, nodes, seed, python=python, script=SIMULATION, **config)


def left_in(folder: Path) -> dict[str, npt.NDArray[Any]]:
    with np.load(folder / "final.npz") as arrays:
        return dict(arrays)
