"""Normal-distribution functions that keep their relative accuracy in the tails."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

SQRT_HALF = math.sqrt(0.5)
LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)
SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)

_HALVINGS = 50  # of an interval: to rounding, whatever its length

log_ndtr = torch.special.log_ndtr


def ndtr(z: Tensor) -> Tensor:
    """Standard normal cdf; erfc keeps the relative accuracy that 1 + erf loses for z << 0."""
    return 0.5 * torch.erfc(-SQRT_HALF * z)


def log_pdf(z: Tensor) -> Tensor:
    """Log of the standard normal density."""
    return -0.5 * z * z - LOG_SQRT_2PI


def mills(z: Tensor) -> Tensor:
    """Inverse Mills ratio phi(z)/PHI(z), finite for every finite z."""
    return SQRT_2_OVER_PI / torch.special.erfcx(-SQRT_HALF * z)


def falling_root(slope: Callable[[Tensor], Tensor], like: Tensor) -> Tensor:
    """Roots of h(x) - x, elementwise, where h decreases: each lies between 0 and h(0)."""
    far = slope(torch.zeros_like(like))
    low, high = torch.clamp(far, max=0.0), torch.clamp(far, min=0.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        rising = slope(middle) > 0.0
        low, high = torch.where(rising, middle, low), torch.where(rising, high, middle)
    return 0.5 * (low + high)
