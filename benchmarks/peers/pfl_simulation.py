"""The same rounds by pfl-research, one process per worker under torchrun, through its public interface."""

from __future__ import annotations

import sys
import time

import numpy as np
import torch
import torch.distributed
from case import Case, case_of, finish, tell, wait_for_turn
from network import load_vector, network, vector_of
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch.nn import functional


def with_loss(case: Case) -> torch.nn.Module:
    module = network(case.network)
    load_vector(module, case.array("start"))
    module.loss = lambda images, labels, **_: functional.cross_entropy(module(images), labels)
    module.metrics = lambda images, labels, **_: {}
    return module


class Timed(FederatedAveraging):
    """Federated averaging that notes how long the local SGD took in this process."""

    sgd_s = 0.0

    def train_one_user(self, initial_model_state, model, user_dataset, central_context):
        began_s = time.thread_time()
        result = super().train_one_user(initial_model_state, model, user_dataset, central_context)
        self.sgd_s += time.thread_time() - began_s
        return result


class Turns(TrainingProcessCallback):
    """Lets the first process wait for its turn and all others wait for the first."""

    def __init__(self, algorithm: Timed, case: Case) -> None:
        self.number, self._algorithm, self._case = 0, algorithm, case

    def on_train_begin(self, *, model):
        if first():
            tell(ready=True)
        self._wait()
        return Metrics()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        self.number += 1
        spent_s = torch.tensor(self._algorithm.sgd_s, dtype=torch.float64)
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(spent_s)
        self._algorithm.sgd_s = 0.0
        if first():
            tell(sgd_s=float(spent_s))
        if self.number < self._case.rounds:
            self._wait()
        return False, Metrics()

    def _wait(self) -> None:
        if first():
            wait_for_turn()
        if torch.distributed.is_initialized():
            torch.distributed.barrier()


def first() -> bool:
    return not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0


def main() -> None:
    case = case_of(sys.argv)
    torch.set_num_threads(1)
    np.random.seed(0)  # noqa: NPY002  (the samplers of pfl use it)
    images, labels, orders = case.array("images"), case.array("labels"), case.array("orders")
    module = with_loss(case)
    central = torch.optim.SGD(module.parameters(), lr=1.0)

    def optimiser(parameters, lr):
        return torch.optim.SGD(parameters, lr=lr, momentum=case.momentum, weight_decay=case.weight_decay)

    params = NNAlgorithmParams(
        central_num_iterations=case.rounds,
        evaluation_frequency=case.rounds + 1,
        train_cohort_size=case.clients,
        val_cohort_size=0,
    )
    algorithm = Timed()
    turns = Turns(algorithm, case)

    def client(number: int) -> Dataset:
        order = orders[turns.number, number]
        tensors = [torch.from_numpy(whole[number][order]) for whole in (images, labels)]
        return Dataset(tensors, user_id=str(number))

    data = FederatedDataset(client, get_user_sampler("minimize_reuse", list(range(case.clients))))
    algorithm.run(
        params,
        SimulatedBackend(training_data=data, val_data=data),
        PyTorchModel(module, optimiser, central),
        NNTrainHyperParams(
            local_learning_rate=case.learning_rate, local_num_epochs=1, local_batch_size=case.batch_size
        ),
        None,
        callbacks=[turns],
    )
    if first():
        finish(case, vector_of(module.parameters()))


if __name__ == "__main__":
    main()
