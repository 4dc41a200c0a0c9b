"""Numerical derivatives, to hold analytic ones against."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def jacobian(function: Callable[[Floats], Floats], at: Floats) -> Floats:
    """Central differences of a vector function, (m, P)."""
    columns = []
    for j, value in enumerate(at):
        step = 1e-5 * max(abs(value), 1e-2)
        moved = [at.copy(), at.copy()]
        moved[0][j] += step
        moved[1][j] -= step
        columns.append((function(moved[0]) - function(moved[1])) / (2.0 * step))
    return np.stack(columns, axis=-1)
