"""Three apps of the shape of Flower's templates: PyTorch, scikit-learn and NumPy.

Their data are drawn, or come with the package: hosts have no internet.
"""

from __future__ import annotations

from pathlib import Path

from flower_apps import write_app

TORCH_TASK = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = x.view(-1, 16 * 5 * 5)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def images(seed, count):
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (count,), generator=draw)
    where = torch.linspace(-1.0, 1.0, 10)[labels].view(-1, 1, 1, 1)
    return TensorDataset(0.3 * torch.randn(count, 3, 32, 32, generator=draw) + where, labels)


def load_data(partition_id, num_partitions, batch_size):
    rows, draw = images(partition_id, 200), torch.Generator().manual_seed(42)
    train_rows, test_rows = random_split(rows, [0.8, 0.2], draw)
    trainloader = DataLoader(train_rows, batch_size=batch_size, shuffle=True)
    return trainloader, DataLoader(test_rows, batch_size=batch_size)


def load_centralized_dataset():
    return DataLoader(images(1000, 200), batch_size=128)


def train(net, trainloader, epochs, lr, device):
    net.to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    net.train()
    total = 0.0
    for _ in range(epochs):
        for batch, labels in trainloader:
            optimizer.zero_grad()
            loss = criterion(net(batch.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / (epochs * len(trainloader))


def test(net, testloader, device):
    net.to(device)
    net.eval()
    right, loss = 0, 0.0
    with torch.no_grad():
        for batch, labels in testloader:
            outputs = net(batch.to(device))
            loss += nn.functional.cross_entropy(outputs, labels.to(device)).item()
            right += (outputs.argmax(1) == labels).sum().item()
    return loss / len(testloader), right / len(testloader.dataset)
"""
TORCH_CLIENT = """
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from pytorchapp.task import Net, load_data
from pytorchapp.task import test as test_fn
from pytorchapp.task import train as train_fn

app = ClientApp()


def prepared(msg, context):
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    node, batch_size = context.node_config, context.run_config["batch-size"]
    return model, device, load_data(node["partition-id"], node["num-partitions"], batch_size)


@app.train()
def train(msg: Message, context: Context):
    model, device, (trainloader, _) = prepared(msg, context)
    epochs, lr = context.run_config["local-epochs"], msg.content["config"]["lr"]
    loss = train_fn(model, trainloader, epochs, lr, device)
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(trainloader.dataset)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    model, device, (_, valloader) = prepared(msg, context)
    loss, accuracy = test_fn(model, valloader, device)
    metrics = {"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(valloader.dataset)}
    return Message(content=RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)
"""
TORCH_SERVER = """
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from pytorchapp.task import Net, load_centralized_dataset, test

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    strategy = FedAvg(fraction_evaluate=config["fraction-evaluate"])
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        train_config=ConfigRecord({"lr": config["learning-rate"]}),
        num_rounds=config["num-server-rounds"],
        evaluate_fn=global_evaluate,
    )
    torch.save(result.arrays.to_torch_state_dict(), "final_model.pt")


def global_evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    model = Net()
    model.load_state_dict(arrays.to_torch_state_dict())
    loss, accuracy = test(model, load_centralized_dataset(), torch.device("cpu"))
    return MetricRecord({"accuracy": accuracy, "loss": loss})
"""
TORCH_CONFIG = """\
num-server-rounds = 3
fraction-evaluate = 1.0
local-epochs = 1
learning-rate = 0.05
batch-size = 32
"""

SKLEARN_TASK = """
import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

LABELS = [0, 1, 2]


def get_model_params(model):
    return [model.coef_, model.intercept_]


def set_model_params(model, params):
    model.coef_, model.intercept_ = params
    return model


def create_log_reg():
    model = LogisticRegression(max_iter=1, warm_start=True, solver="saga")
    model.classes_ = np.array(LABELS)
    return set_model_params(model, [np.zeros((3, 4)), np.zeros(3)])


def load_data(partition_id, num_partitions):
    x, y = load_iris(return_X_y=True)
    mine = np.random.default_rng(42).permutation(len(x))[partition_id::num_partitions]
    x, y, count = x[mine], y[mine], int(0.8 * len(mine))
    return x[:count], y[:count], x[count:], y[count:]
"""
SKLEARN_CLIENT = """
import warnings

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.metrics import log_loss
from sklearnapp.task import LABELS, create_log_reg, get_model_params, load_data, set_model_params

app = ClientApp()


def prepared(msg, context):
    model = set_model_params(create_log_reg(), msg.content["arrays"].to_numpy_ndarrays())
    return model, load_data(context.node_config["partition-id"], context.node_config["num-partitions"])


@app.train()
def train(msg: Message, context: Context):
    model, (x, y, _, _) = prepared(msg, context)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, y)
    metrics = {"num-examples": len(x), "train_logloss": log_loss(y, model.predict_proba(x), labels=LABELS)}
    content = RecordDict({"arrays": ArrayRecord(get_model_params(model)), "metrics": MetricRecord(metrics)})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    model, (_, _, x, y) = prepared(msg, context)
    metrics = {"test_logloss": log_loss(y, model.predict_proba(x), labels=LABELS)}
    metrics |= {"accuracy": model.score(x, y), "num-examples": len(x)}
    return Message(content=RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)
"""
SKLEARN_SERVER = """
import joblib
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from sklearnapp.task import create_log_reg, get_model_params, set_model_params

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    model = create_log_reg()
    strategy = FedAvg(fraction_train=1.0, fraction_evaluate=1.0)
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(get_model_params(model)),
        num_rounds=context.run_config["num-server-rounds"],
    )
    joblib.dump(set_model_params(model, result.arrays.to_numpy_ndarrays()), "logreg_model.pkl")
"""

NUMPY_CLIENT = """
import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(msg: Message, context: Context):
    model = [array + np.random.rand(*array.shape) for array in msg.content["arrays"].to_numpy_ndarrays()]
    metrics = MetricRecord({"random_metric": np.random.rand(), "num-examples": 1})
    return Message(content=RecordDict({"arrays": ArrayRecord(model), "metrics": metrics}), reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    metrics = MetricRecord({"random_metric": np.random.rand(3).tolist(), "num-examples": 1})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
"""
NUMPY_SERVER = """
import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    result = FedAvg().start(
        grid=grid,
        initial_arrays=ArrayRecord([np.ones((1, 1))]),
        num_rounds=context.run_config["num-server-rounds"],
    )
    np.savez("final_model", *result.arrays.to_numpy_ndarrays())
"""

ROUNDS = "num-server-rounds = 3\n"
#: By name: modules, config, what it needs, and what its ServerApp leaves.
TEMPLATES = {
    "pytorchapp": (
        {"task": TORCH_TASK, "client_app": TORCH_CLIENT, "server_app": TORCH_SERVER},
        TORCH_CONFIG,
        ["flwr[simulation]>=1.27.0", "torch"],
        "final_model.pt",
    ),
    "sklearnapp": (
        {"task": SKLEARN_TASK, "client_app": SKLEARN_CLIENT, "server_app": SKLEARN_SERVER},
        ROUNDS,
        ["flwr[simulation]>=1.27.0", "scikit-learn>=1.6.1"],
        "logreg_model.pkl",
    ),
    "numpyapp": (
        {"client_app": NUMPY_CLIENT, "server_app": NUMPY_SERVER},
        ROUNDS,
        ["flwr[simulation]>=1.27.0", "numpy>=2.0.2"],
        "final_model.npz",
    ),
}


def written_template(folder: Path, name: str) -> Path:
    """The app of that name in a folder of its own."""
    modules, config, needs, _ = TEMPLATES[name]
    return write_app(folder / name, name, modules, config, needs)
