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


def upper_mills(z: Tensor) -> Tensor:
    """Mills ratio PHI(-z)/phi(z), finite for every z > 0."""
    return torch.special.erfcx(SQRT_HALF * z) / SQRT_2_OVER_PI


def log_ndtr_difference(high: Tensor, low: Tensor) -> Tensor:
    """log(PHI(high) - PHI(low)); minus infinity where high is not above low."""
    # In the upper tail by symmetry, where the two probabilities are not close to one.
    upper = low > 0.0
    high, low = torch.where(upper, -low, high), torch.where(upper, -high, low)
    log_high = log_ndtr(high)
    ratio = torch.clamp(log_ndtr(low) - log_high, max=0.0)
    found = log_high + torch.log(-torch.expm1(ratio))
    # Close together: the density in the middle times the gap, to the order of gap^6.
    gap, middle = high - low, 0.5 * (high + low)
    m2, g2 = middle**2, gap**2
    bend = g2 * (m2 - 1.0) / 24.0 + g2**2 * (m2**2 - 6.0 * m2 + 3.0) / 1920.0
    close = log_pdf(middle) + torch.log(gap.clamp(min=0.0)) + torch.log1p(bend)
    return torch.where(g2 * (1.0 + m2) < 1e-4, close, found)
