"""Who is whose neighbour, as a matrix, for tests of what travels between devices."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def linked(devices: int, *links: tuple[int, int]) -> sparse.csr_array:
    """Both ways; nobody is its own neighbour unless a link says so."""
    matrix = np.zeros((devices, devices), np.bool_)
    for i, j in links:
        matrix[i, j] = matrix[j, i] = True
    return sparse.csr_array(matrix)
