"""Federated averaging as one writes it first: one process, one thread, one client after the other."""

from __future__ import annotations

import copy
import sys
import time

import torch
from case import case_of, finish, tell, turns
from network import load_vector, network, train_client, vector_of


def main() -> None:
    case = case_of(sys.argv)
    torch.set_num_threads(1)
    images, labels, orders = case.array("images"), case.array("labels"), case.array("orders")
    central = network(case.network)
    load_vector(central, case.array("start"))
    if case.double:
        central.double()
    for number in turns(case):
        sgd_s = 0.0
        states = []
        for client in range(case.clients):
            local = copy.deepcopy(central)
            began_s = time.thread_time()
            train_client(local, images[client], labels[client], orders[number, client], case)
            sgd_s += time.thread_time() - began_s
            states.append(local.state_dict())
        mean = {name: sum(state[name] for state in states) / case.clients for name in states[0]}
        central.load_state_dict(mean)
        tell(sgd_s=sgd_s)
    finish(case, vector_of(central.parameters()))


if __name__ == "__main__":
    main()
