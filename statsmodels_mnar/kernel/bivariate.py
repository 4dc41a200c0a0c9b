r"""The row likelihood of the probit form: bivariate normal probabilities.

With h = q a, k = b and r = q rho, q = 2y - 1, a labelled row's likelihood is the bivariate normal
probability P(h, k; r). Its derivative in r is the bivariate normal density (Plackett 1954), so that

    P = PHI(h) PHI(k) + q/(2 pi) INT_0^asin(rho) exp(-m/(2 cos(v)^2) - p/(1 + sin|v|)) dv,
    m = (a - c b)^2,  p = c a b,  c = sign(rho),

in which the nodes are shared by the rows and the exponents do not cancel. A dozen to six dozen
nodes and one exponential at each are enough up to \|rho\| = 0.9999. Where the label speaks against
the correlation the integral is subtracted, and what is left may be too small for it: rows below a
hundredth of PHI(h) PHI(k) are left to another rule.

Beyond that r approaches a corner, c = sign(r), at which P turns into

    PHI(min(h, k))               at r = 1,
    max(PHI(h) - PHI(-k), 0)     at r = -1,

with a kink at d = h - ck = 0 that is sqrt(1 - r^2) wide. Quadrature needs the more nodes the
narrower the kink. By the same identity the distance to the corner is the integral (Drezner and
Wesolowsky 1990, Genz 2004)

    I = 1/(2 pi) INT_0^w exp(-d^2/(2 x^2)) g(x^2) dx,   w = sqrt(1 - r^2),
    g(v) = exp(-chk/(1 + sqrt(1 - v)))/sqrt(1 - v),

which a few terms of the series of g give to rounding. Score and Hessian are closed forms of P.

Axes: B parameter vectors, K nodes, n rows. Parameters in the order a, b, athrho.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from .integration import Workspace, legendre_rule
from .links import LOG2_E, LOG_SQRT_2PI, log_ndtr, log_ndtr_difference, log_pdf, ndtr, upper_mills
from .rows import RowTerms, log_derivatives

SMALLEST = 1e-2  # of a probability beside that of independent errors
_TINY = 1e-250  # of a probability whose logarithm and ratios are still ordinary numbers


@dataclass(frozen=True, slots=True)
class PlackettNodes:
    """Gauss-Legendre nodes over the angle v = asin(correlation) from zero to each member's."""

    powers: Tensor  # (B, K, 2) what m and p are multiplied by, for powers of two
    weight: Tensor  # (B, 1, K) signed as athrho is
    steepest: float  # largest |athrho|
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
        by_m, by_p = -0.5 * LOG2_E / np.cos(v) ** 2, -LOG2_E / (1.0 + np.sin(np.abs(v)))
        weight = (angle[:, None] * powers[0] / (2.0 * math.pi))[:, None]
        return cls(
            torch.as_tensor(np.stack([by_m, by_p], axis=-1), device=device),
            torch.as_tensor(weight, device=device),
            float(np.abs(athrho).max(initial=0.0)),
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
    torch.matmul(nodes.powers, m_and_p, out=wide).exp2_()
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


# -- close to a correlation of one or minus one, by a series ---------------------------------------


CORNER = math.atanh(0.9999)  # from this |athrho| on the series is used
_ROOT_SERIES = (1 / 8, 1 / 16, 5 / 128, 7 / 256)  # of 1/(1 + sqrt(1 - v)), without the constant
_LARGE = 25.0  # d/w from which the first term's asymptotic series is as accurate as its formula


def near_corner(a: Tensor, b: Tensor, athrho: Tensor, sign: Tensor, order: int) -> RowTerms:
    """Log-likelihood of labelled rows and its derivatives up to ``order``, for |athrho| > CORNER.

    Parameters
    ----------
    a, b : Tensor
        (B, n) outcome and selection indices.
    athrho : Tensor
        (B,).
    sign : Tensor
        (n,) or (B, n), +1 or -1: the label.
    """
    t = athrho[:, None]
    far = torch.exp(-t.abs())
    cosh = torch.cosh(t)
    c = torch.sign(sign * t)  # the corner, +1 or -1
    h = sign * a
    d, chk = h - c * b, c * h * b
    log_gap = _log_distance(d, chk, cosh)
    log_corner = torch.where(c > 0.0, log_ndtr(torch.minimum(h, b)), log_ndtr_difference(h, -b))
    value = torch.where(
        c > 0.0,
        log_corner + torch.log1p(-torch.exp(log_gap - log_corner)),
        torch.logaddexp(log_corner, log_gap),
    )
    if order == 0:
        return RowTerms(value)
    # (k - rh)/w and (h - rk)/w, without the cancellation of cosh and sinh
    to_k, to_h = c * (h * far - d * cosh), d * cosh + c * b * far
    by_h = torch.exp(log_pdf(h) + log_ndtr(to_k) - value)
    by_k = torch.exp(log_pdf(b) + log_ndtr(to_h) - value)
    # The bivariate density over P; 1 - |r| = far/cosh.
    exponent = -chk / (2.0 - far / cosh) - 0.5 * (d * cosh) ** 2
    density = cosh * torch.exp(exponent - 2.0 * LOG_SQRT_2PI - value)
    by_t = sign * density / cosh**2
    first = [sign * by_h, by_k, by_t]
    if order == 1:
        return RowTerms(value, torch.stack(first))
    r = sign * torch.tanh(t)
    quadratic = d * d + 2.0 * chk * far / cosh
    raw = [
        -h * by_h - r * density,
        sign * density,
        -density * to_h / cosh,
        -b * by_k - r * density,
        -sign * density * to_k / cosh,
        density * ((h * b - r) / cosh**2 - r * quadratic),
    ]
    return log_derivatives(value, first, raw)


def _log_distance(d: Tensor, chk: Tensor, cosh: Tensor) -> Tensor:
    """Return log I, the log of the probability's distance to its value at the corner."""
    z = d.abs() * cosh
    v = cosh**-2
    # g(v) = exp(-chk/2) (1 + g_1 v + g_2 v^2 + ...), from the series of log g
    logs = [v**j * (1.0 / (2 * j) - chk * c) for j, c in enumerate(_ROOT_SERIES, start=1)]
    series = [torch.ones_like(chk)]
    # m_j = INT_0^1 x^(2j) exp(z^2/2 - z^2/(2x^2)) dx, by parts from m_0
    moment = _first_moment(z)
    total = moment
    for j in range(1, len(logs) + 1):
        terms = [i * logs[i - 1] * series[j - i] for i in range(1, j + 1)]
        series.append(torch.stack(terms).sum(0) / j)
        moment = (1.0 - z * z * moment) / (2 * j + 1)
        total = total + series[j] * moment
    return torch.log(total / cosh) - 2.0 * LOG_SQRT_2PI - 0.5 * chk - 0.5 * z * z


def _first_moment(z: Tensor) -> Tensor:
    """Return 1 - z PHI(-z)/phi(z), which falls like 1/z^2."""
    y = 1.0 / torch.clamp(z, min=_LARGE) ** 2
    tail = y * (1.0 - y * (3.0 - y * (15.0 - y * (105.0 - y * (945.0 - y * 10395.0)))))
    return torch.where(z < _LARGE, 1.0 - z * upper_mills(z), tail)
