"""Checks of the arrays from which rows are built."""

from __future__ import annotations

import numpy as np


def matrix(name: str, value: np.ndarray) -> np.ndarray:
    value = _numbers(name, value)
    if value.ndim != 2 or 0 in value.shape:
        raise ValueError(f"{name} must be a matrix with rows and columns, got shape {value.shape}")
    return finite(name, value)


def vector(name: str, value: np.ndarray, n: int) -> np.ndarray:
    return finite(name, shaped(name, value, n))


def shaped(name: str, value: np.ndarray, n: int) -> np.ndarray:
    value = _numbers(name, value)
    if value.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), got {value.shape}")
    return value


def _numbers(name: str, value: np.ndarray) -> np.ndarray:
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers ({error})") from error


def finite(name: str, value: np.ndarray) -> np.ndarray:
    if not np.isfinite(value).all():
        where = np.argwhere(~np.isfinite(value))[0].tolist()
        raise ValueError(f"{name} is not finite at position {where}; drop or fill such rows")
    return value
