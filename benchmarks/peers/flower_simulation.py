"""The same rounds by Flower's simulation engine (Ray), FedAvg strategy, through its public interface."""

from __future__ import annotations

import logging
import os
import sys
import time

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_DISABLE_IMPORT_WARNING"] = "1"

import torch
from case import Case, case_of, finish, tell, wait_for_turn
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from network import load_vector, network, train_client, vector_of


def client_app(case: Case) -> ClientApp:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        client = int(context.node_config["partition-id"])
        number = int(message.content["config"]["server-round"]) - 1
        module = network(case.network)
        module.load_state_dict(message.content["arrays"].to_torch_state_dict())
        began_s = time.thread_time()
        train_client(
            module,
            case.array("images")[client],
            case.array("labels")[client],
            case.array("orders")[number, client],
            case,
        )
        metrics = MetricRecord({"num-examples": case.images, "sgd_s": time.thread_time() - began_s})
        reply = RecordDict({"arrays": ArrayRecord(module.state_dict()), "metrics": metrics})
        return Message(content=reply, reply_to=message)

    return app


def server_app(case: Case) -> ServerApp:
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        module = network(case.network)
        load_vector(module, case.array("start"))
        strategy = Turns(
            fraction_train=1.0,
            fraction_evaluate=0.0,
            min_train_nodes=case.clients,
            min_available_nodes=case.clients,
        )
        strategy.clients = case.clients

        def between(number: int, arrays: ArrayRecord) -> None:
            """Called by the strategy before the first round and after each."""
            tell(**({"ready": True} if number == 0 else {"sgd_s": strategy.sgd_s}))
            if number < case.rounds:
                wait_for_turn()
            else:
                finish(case, vector_of(arrays.to_torch_state_dict().values()))

        strategy.start(grid, ArrayRecord(module.state_dict()), num_rounds=case.rounds, evaluate_fn=between)

    return app


class Turns(FedAvg):
    """FedAvg that notes how long the clients' SGD took in all."""

    clients = 0
    sgd_s = 0.0

    def aggregate_train(self, server_round, replies):
        arrays, metrics = super().aggregate_train(server_round, replies)
        if metrics is None:
            raise RuntimeError("no client answered")
        self.sgd_s = float(metrics["sgd_s"]) * self.clients  # equal weights: the mean times all
        return arrays, metrics


def main() -> None:
    case = case_of(sys.argv)
    logging.getLogger("flwr").setLevel(logging.WARNING)
    run_simulation(
        server_app(case),
        client_app(case),
        num_supernodes=case.clients,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": case.workers, "include_dashboard": False},
        },
    )


if __name__ == "__main__":
    main()
