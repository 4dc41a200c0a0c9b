r"""The row likelihood of the probit form by Plackett's integral over the correlation.

With h = q a, k = b and r = q rho, q = 2y - 1, a labelled row's likelihood is the bivariate normal
probability P(h, k; r). Its derivative in r is the bivariate normal density (Plackett 1954), so that

    P = PHI(h) PHI(k) + q/(2 pi) INT_0^asin(rho) exp(-m/(2 cos(v)^2) - p/(1 + sin|v|)) dv,
    m = (a - c b)^2,  p = c a b,  c = sign(rho),

in which the nodes are shared by the rows and the exponents do not cancel. A dozen to six dozen
nodes and one exponential at each are enough up to \|rho\| = 0.9999; beyond that the series of
:mod:`~statsmodels_mnar.kernel.corner` takes over. Score and Hessian are closed forms of P.

Where the label speaks against the correlation the integral is subtracted, and what is left may be
too small for it: rows below a hundredth of PHI(h) PHI(k) are left to another rule.

Axes: B parameter vectors, K nodes, n rows. Parameters in the order a, b, athrho.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from .integration import Workspace, legendre_rule
from .links import LOG_SQRT_2PI, log_pdf, ndtr
from .rows import RowTerms, log_derivatives

SMALLEST = 1e-2  # of a probability beside that of independent errors
_TINY = 1e-250  # of a probability whose logarithm and ratios are still ordinary numbers


@dataclass(frozen=True, slots=True)
class PlackettNodes:
    """Gauss-Legendre nodes over the angle v = asin(correlation) from zero to each member's."""

    powers: Tensor  # (B, K, 2) what m and p are multiplied by
    weight: Tensor  # (B, 1, K) signed as athrho is
    work: Workspace = field(default_factory=Workspace, compare=False, repr=False)

    @property
    def count(self) -> int:
        """Nodes of a row."""
        return self.weight.shape[-1]

    @classmethod
    def build(cls, athrho: np.ndarray, tol: float, device: torch.device) -> PlackettNodes:
        """Nodes for these (B,) athrho."""
        x, powers = legendre_rule(int(plackett_counts(athrho, tol).max(initial=0)))
        angle = np.arcsin(np.tanh(athrho))
        v = angle[:, None] * x
        by_m, by_p = -0.5 / np.cos(v) ** 2, -1.0 / (1.0 + np.sin(np.abs(v)))
        weight = (angle[:, None] * powers[0] / (2.0 * math.pi))[:, None]
        return cls(
            torch.as_tensor(np.stack([by_m, by_p], axis=-1), device=device),
            torch.as_tensor(weight, device=device),
        )


def plackett_counts(athrho: np.ndarray, tol: float) -> np.ndarray:
    """Return the nodes for a relative error ``tol``, (B,): found by trial on a grid of rows."""
    need = math.log(1.0 / tol)
    t = np.abs(athrho)
    count = 4.0 + need * (0.3 + t * (0.4 + 0.03 * t))
    return (4.0 * np.ceil(count / 4.0)).astype(int)


def plackett(
    a: Tensor, b: Tensor, athrho: Tensor, sign: Tensor, nodes: PlackettNodes, order: int
) -> tuple[RowTerms, Tensor]:
    """Log-likelihood of labelled rows and its derivatives, and which are too small for it.

    Parameters
    ----------
    a, b : Tensor
        (B, n) outcome and selection indices.
    athrho : Tensor
        (B,).
    sign : Tensor
        (n,) or (B, n), +1 or -1: the label.

    Returns
    -------
    terms : RowTerms
    small : Tensor
        (B, n) bool, rows whose terms are to be computed otherwise.
    """
    t = athrho[:, None]
    c = torch.where(t < 0.0, -1.0, 1.0).to(t.dtype)
    h, cb = sign * a, c * b
    m_and_p = torch.stack([(a - cb).square_(), a * cb], dim=1)  # (B, 2, n)
    wide = nodes.work.stacked(1, (len(a), nodes.count, a.shape[1]), a)[0]
    torch.matmul(nodes.powers, m_and_p, out=wide).exp_()
    apart = ndtr(h) * ndtr(b)
    P = torch.addcmul(apart, sign, torch.matmul(nodes.weight, wide)[:, 0])
    least = torch.clamp(SMALLEST * apart, min=_TINY)
    small = ~P.gt(least)  # or not a number
    P = P.masked_fill(small, 1.0)
    value = torch.log(P)
    if order == 0:
        return RowTerms(value), small
    r, cosh = sign * torch.tanh(t), torch.cosh(t)
    from_k, from_h = h - r * b, b - r * h
    by_h = torch.exp(log_pdf(h) - value) * ndtr(from_h * cosh)
    by_k = torch.exp(log_pdf(b) - value) * ndtr(from_k * cosh)
    # h^2 - 2 r h k + k^2 = (h - r k)^2 + k^2/cosh^2
    exponent = -0.5 * ((from_k * cosh).square_() + b * b)
    density = cosh * torch.exp(exponent - (2.0 * LOG_SQRT_2PI) - value)
    first = [sign * by_h, by_k, sign * density / cosh**2]
    if order == 1:
        return RowTerms(value, torch.stack(first)), small
    signed, turned = sign * density, r * density
    quadratic = from_k.square() + (b / cosh).square_()
    raw = [
        -h * by_h - turned,
        signed,
        -density * from_k,
        -b * by_k - turned,
        -signed * from_h,
        density * (h * b - r) / cosh**2 - turned * quadratic,
    ]
    return log_derivatives(value, first, raw), small
