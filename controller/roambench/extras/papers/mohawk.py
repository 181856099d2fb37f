"""Numbers that MOHAWK's authors printed: Tables 3 to 6 of "MOHAWK: Mobility and Heterogeneity-Aware Dynamic
Community Selection for Hierarchical Federated Learning", IoTDI 2023. Numbers only, as in the paper, misprints
included.

1,000 devices and 100 APs over 744 steps of one hour, 500 images per device (CIFAR-100: 2,500), k1 = 5,
batches of 8, mean over three seeds. IID: Dirichlet with alpha = 100, non-IID: 0.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: The columns of the paper's tables, in its order.
SYSTEMS: Final = ("hierfavg", "macfl", "mohawk")
K2: Final = (2, 5, 10)
IID: Final = "IID"
NON_IID: Final = "non-IID"

#: (dataset, data, k2) -> a figure per system, in the order of SYSTEMS.
Figures = Mapping[tuple[str, str, int], tuple[float, ...]]
_Rows = Mapping[str, Mapping[str, tuple[tuple[float, ...], ...]]]


def _figures(rows: _Rows) -> Figures:
    """From the paper's layout: a row per system, a column per k2."""
    return {
        (dataset, data, k2): tuple(row[column] for row in systems)
        for dataset, settings in rows.items()
        for data, systems in settings.items()
        for column, k2 in enumerate(K2)
    }


#: The accuracy whose rounds and joules Tables 4 and 6 tell.
THRESHOLDS: Final[Mapping[str, float]] = {"mnist": 0.97, "emnist": 0.75, "cifar10": 0.6, "cifar100": 0.45}

#: Table 3: accuracy in % after the month, mean over the seeds.
ACCURACY_PERCENT: Final = _figures(
    {
        "mnist": {
            IID: ((99.12, 99.08, 99.06), (99.12, 99.14, 99.16), (99.13, 99.17, 99.13)),
            NON_IID: ((98.7, 98.69, 98.58), (98.73, 98.72, 98.72), (99.15, 99.02, 98.88)),
        },
        "emnist": {
            IID: ((78.45, 78.26, 76.66), (78.45, 78.5, 76.99), (78.76, 78.81, 78.02)),
            NON_IID: ((77.07, 78.12, 76.6), (77.43, 78.44, 76.98), (78.17, 78.64, 77.75)),
        },
        "cifar10": {
            IID: ((72.65, 69.69, 71.81), (72.93, 72.91, 72.65), (78.69, 77.36, 75.8)),
            NON_IID: ((67.09, 64.08, 63.28), (65.36, 65.02, 64.65), (74.09, 70.82, 68.55)),
        },
        "cifar100": {
            IID: ((46.13, 45.74, 46.36), (46.5, 46.61, 47.14), (46.81, 47.27, 47.55)),
            NON_IID: ((45.67, 45.94, 45.88), (46.19, 45.9, 46.67), (46.52, 47.16, 47.79)),
        },
    }
)

#: Table 4: communication rounds to the threshold.
ROUNDS: Final = _figures(
    {
        "mnist": {
            IID: ((46, 50, 70), (42, 45, 50), (12, 20, 30)),
            NON_IID: ((162, 185, 210), (142, 165, 180), (40, 75, 110)),
        },
        "emnist": {
            IID: ((162, 190, 455), (150, 165, 335), (44, 85, 160)),
            NON_IID: ((338, 200, 470), (330, 170, 410), (118, 145, 210)),
        },
        "cifar10": {
            IID: ((212, 288, 220), (192, 210, 210), (52, 100, 150)),
            NON_IID: ((358, 500, 530), (428, 455, 510), (138, 240, 330)),
        },
        "cifar100": {
            IID: ((502, 605, 500), (422, 455, 390), (142, 215, 280)),
            NON_IID: ((614, 590, 620), (524, 595, 520), (214, 330, 360)),
        },
    }
)

#: Table 5: mean number of devices whose models are aggregated at a time step, by k2.
AGGREGATED: Final[Mapping[int, tuple[float, ...]]] = {2: (15, 15, 18), 5: (15, 15, 22), 10: (15, 15, 26)}
#: Its column "Avg. Improv.", in %: 1 - baselines / MOHAWK fits it (before rounding to whole devices).
AGGREGATED_IMPROVEMENT: Final[Mapping[int, float]] = {2: 12.84, 5: 29.69, 10: 39.78}
#: Mean and standard deviation of the distance from device to AP, km.
DISTANCE_KM: Final[tuple[tuple[float, float], ...]] = ((7.08, 3.92), (7.01, 3.83), (0.91, 0.75))

#: Table 6: joules for communication per client until the threshold.
JOULES: Final = _figures(
    {
        "mnist": {
            IID: ((602.97, 654.56, 892.31), (575.13, 588.46, 653.37), (152.41, 263.47, 389.22)),
            NON_IID: ((2051.28, 2330.4, 2633.58), (1787.82, 2087.03, 2259.74), (502.73, 943.85, 1374.2)),
        },
        "cifar10": {
            IID: ((2659.61, 3606.83, 2764.25), (2416.3, 2629.54, 2629.54), (655.16, 1250.28, 1881.72)),
            NON_IID: (
                (4461.25, 6242.22, 6629.33),
                (5325.98, 5665.64, 6356.33),
                (1704.53, 2974.56, 4143.05),
            ),
        },
    }
)
