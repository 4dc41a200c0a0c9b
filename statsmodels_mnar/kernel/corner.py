"""The row likelihood of the probit form close to a correlation of one or minus one.

With h = q a, k = b and r = q rho a labelled row's likelihood is the bivariate normal probability
P(h, k; r). As r approaches a corner, c = sign(r), it turns into

    PHI(min(h, k))               at r = 1,
    max(PHI(h) - PHI(-k), 0)     at r = -1,

with a kink at d = h - ck = 0 that is sqrt(1 - r^2) wide. Quadrature needs the more nodes the
narrower the kink. By Plackett's identity dP/dr is the bivariate normal density, so that the
distance to the corner is the integral (Drezner and Wesolowsky 1990, Genz 2004)

    I = 1/(2 pi) INT_0^w exp(-d^2/(2 x^2)) g(x^2) dx,   w = sqrt(1 - r^2),
    g(v) = exp(-chk/(1 + sqrt(1 - v)))/sqrt(1 - v),

which a few terms of the series of g give to rounding. The derivatives of P are closed forms.

Axes: B parameter vectors, n rows. Parameters in the order a, b, athrho.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .links import LOG_SQRT_2PI, log_ndtr, log_ndtr_difference, log_pdf, upper_mills
from .rows import RowTerms, log_derivatives

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
