"""The row likelihood of the loading form: the selection error u itself enters the outcome.

    J = INT_{-b}^inf F(a + loading u) phi(u) du

the limit |rho| -> 1 of the full-line likelihood, with loading = rho sigma. A logistic outcome gives
the face of Greene's model, a probit outcome the bivariate normal probability of heckprobit. The
derivative in b is the integrand at the end point. A soft row with s' < 1/2 lives on the other half
line, u < -b; reflecting u turns it into the same integral at (-b, -loading). With s' = 1/2 the
selection factor of the full line is PHI(0) = 1/2 at every u, and so is its limit.

A large loading makes F(a + loading u) a steep step in u, for which quadrature in u needs ever more
nodes. The index at which F is taken, w = a + loading u for a positive loading and its negative for
a negative one, does not: F(w) changes near w = 0, and beyond that the integral is a normal
probability (see :class:`StepNodes`).

Axes: B parameter vectors, K nodes, n rows. Parameters in the order a, b, loading.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .integration import Workspace, falling_root, half_width, legendre_count, legendre_rule
from .links import INV_SQRT_2PI, Link, log_ndtr, log_pdf, ndtr
from .rows import Block, RowTerms, entries, log_derivatives

_WHOLE_LINE = 1e4  # an index b at which the end point -b has no density left
_LOG_ROWS = 1024  # rows in log space at once
_FLOOR = 1e-8  # of an integral beside its normal weight; a smaller one needs log space


@dataclass(frozen=True, slots=True)
class HalfNodes:
    """Gauss-Legendre nodes on [0, 1], stretched over each row's own interval."""

    x: Tensor  # (K,)
    powers: Tensor  # (3, K) weight * [1, x, x^2]
    width: float  # the normal density is cut where it has fallen by exp(-width^2/2)
    floor: float  # relative to PHI(b); a smaller integral needs the log-space path
    work: Workspace = field(default_factory=Workspace, compare=False, repr=False)
    without: tuple[bool, ...] = ()  # (B,) members that are evaluated without these nodes
    step: StepNodes | None = None  # of those members

    @property
    def count(self) -> int:
        """Nodes of a row, but for the few rows in log space."""
        used = 0 if self.without and all(self.without) else self.x.shape[0]
        return max(used, 0 if self.step is None else len(self.step.x), 1)

    @classmethod
    def build(cls, loading: float, tol: float, link: Link, device: torch.device) -> HalfNodes:
        """Nodes for loadings of at most this size."""
        count = legendre_count(loading, tol, entire=link.entire, strip=link.strip)
        rule = legendre_rule(count)
        x, powers = (torch.as_tensor(values, device=device) for values in rule)
        return cls(x, powers, half_width(tol), link.floor)


STEEP = 5.0  # |loading| from which a link with panels is a step


@dataclass(frozen=True, slots=True)
class StepNodes:
    """Gauss-Legendre nodes over the index at which a link is taken, panel by panel.

    A row's panels begin at the index of its end point u = -b; a panel below that has no length.
    """

    start: Tensor  # (K,) of the panel to which a node belongs
    end: Tensor  # (K,)
    x: Tensor  # (K,) place in the panel, between 0 and 1
    weight: Tensor  # (K,) per unit of the panel's length
    reach: float  # |w| beyond which the function is 0 or 1

    @classmethod
    def build(cls, tol: float, link: Link, device: torch.device) -> StepNodes:
        reach = math.log(1.0 / (tol * _FLOOR)) + 2.0
        edges, counts = (-reach, *link.panels, reach), step_counts(tol, link)
        rules = [legendre_rule(count) for count in counts]
        start, end, x, weight = (
            torch.as_tensor(values, device=device)
            for values in (
                np.repeat(edges[:-1], counts),
                np.repeat(edges[1:], counts),
                np.concatenate([x for x, _ in rules]),
                np.concatenate([powers[0] for _, powers in rules]),
            )
        )
        return cls(start, end, x, weight, reach)


def step_counts(tol: float, link: Link) -> list[int]:
    """Return the nodes on each panel of :class:`StepNodes` for an error ``tol``."""
    share = (math.log(1.0 / tol) + 4.0) / (math.log(1e13) + 4.0)
    return [max(4, math.ceil(min(share, 1.1) * count)) for count in link.panel_nodes]


def half_line(
    a: Tensor, b: Tensor, loading: Tensor, block: Block, nodes: HalfNodes, link: Link, order: int
) -> RowTerms:
    """Log-likelihood of "hard" and "soft" rows and its derivatives up to ``order``.

    Parameters
    ----------
    a, b : Tensor
        (B, n) outcome and selection indices.
    loading : Tensor
        (B,) signed loading of the selection error in the outcome index.
    """
    side = torch.where(block.tilt < 0.0, -1.0, 1.0)  # (n,) or (B, n)
    whole_line = block.tilt == 0.0
    b = torch.where(whole_line, _WHOLE_LINE, side * b)
    loading = side * loading[:, None]
    integral = _integral(a, b, loading, block.sign, nodes, link, order)
    members, rows = _rows_below(integral.relative, nodes.floor)
    for first in range(0, len(rows), _LOG_ROWS):
        member, row = members[first : first + _LOG_ROWS], rows[first : first + _LOG_ROWS]
        exact = _log_space(
            a[member, row], b[member, row], loading[member, row],
            entries(block.sign, member, row), nodes, link,
        )  # fmt: skip
        integral.log_J[member, row] = exact.log_J
        for whole, part in zip(integral.ratios, exact.ratios, strict=False):
            whole[member, row] = part
    terms = _assemble(a, b, loading, side, integral, block, link, order)
    halved = torch.where(whole_line, terms.value - math.log(2.0), terms.value)
    return replace(terms, value=halved)


class _Integral(NamedTuple):
    log_J: Tensor  # (B, n)
    ratios: list[Tensor]  # J_a, J_loading, J_aa, J_a,loading, J_loading,loading over J, each (B, n)
    relative: Tensor  # (B, n) the integral over that of its normal weight


def _rows_below(relative: Tensor, floor: float) -> tuple[Tensor, Tensor]:
    """Members and rows whose integral is too small for these nodes (or is not a number)."""
    member, row = torch.nonzero(~(relative >= floor), as_tuple=True)
    return member, row


def _integral(
    a: Tensor, b: Tensor, loading: Tensor, sign: Tensor, nodes: HalfNodes, link: Link, order: int
) -> _Integral:
    if nodes.step is None or not any(nodes.without):
        return _linear_space(a, b, loading, sign, nodes, link, order)
    steep = _over_index(a, b, loading, sign, nodes, link, order)
    if all(nodes.without):
        return steep
    rest = _linear_space(a, b, loading, sign, nodes, link, order)
    chosen = torch.as_tensor(nodes.without, device=a.device)[:, None]
    return _Integral(
        torch.where(chosen, steep.log_J, rest.log_J),
        [torch.where(chosen, *pair) for pair in zip(steep.ratios, rest.ratios, strict=True)],
        torch.where(chosen, steep.relative, rest.relative),
    )


def _linear_space(
    a: Tensor, b: Tensor, loading: Tensor, sign: Tensor, nodes: HalfNodes, link: Link, order: int
) -> _Integral:
    low = -torch.clamp(b, max=nodes.width)
    start = torch.clamp(low, min=0.0)  # where the density is largest on the half line
    length = torch.sqrt(start * start + nodes.width**2) - low
    shape = (len(a), nodes.count, a.shape[1])  # (B, K, n)
    u, density, x, cdf, pdf, curve = nodes.work.arrays(6, shape, a)
    torch.addcmul(low[:, None], length[:, None], nodes.x[:, None], out=u)
    torch.addcmul((0.5 * start * start)[:, None], u, u, value=-0.5, out=density).exp_()
    torch.addcmul((sign * a)[:, None], (sign * loading)[:, None], u, out=x)

    def sums(product: Tensor, n_powers: int) -> list[Tensor]:
        """Integrals of product * [1, u, u^2] over the row's interval."""
        m = torch.matmul(nodes.powers[:n_powers], product.mul_(density)).movedim(1, 0)
        out = [m[0]]
        if n_powers > 1:
            out.append(low * m[0] + length * m[1])
        if n_powers > 2:
            out.append(low * (low * m[0] + 2.0 * length * m[1]) + length * length * m[2])
        return out

    link.derivatives(x, sign.expand_as(a)[:, None], cdf, pdf, curve)
    total = sums(cdf, 1)[0]
    log_J = torch.log(INV_SQRT_2PI * length * total) - 0.5 * start * start
    ratios: list[Tensor] = []
    if order >= 1:
        ratios += [sign * v / total for v in sums(pdf, 2)]
    if order >= 2:
        ratios += [v / total for v in sums(curve, 3)]
    return _Integral(log_J, ratios, INV_SQRT_2PI * length * total)


def _over_index(
    a: Tensor, b: Tensor, loading: Tensor, sign: Tensor, nodes: HalfNodes, link: Link, order: int
) -> _Integral:
    """The integral over the index at which the link is taken, for large loadings."""
    step = nodes.step
    assert step is not None
    side, m = torch.sign(sign * loading), loading.abs()
    center = side * sign * a  # w at u = 0
    low = center - m * b  # w at u = -b
    shape = (len(a), len(step.x), a.shape[1])  # (B, K, n)
    u, w, density, cdf, pdf, curve = nodes.work.arrays(6, shape, a)
    torch.maximum(torch.minimum(low[:, None], step.end[:, None]), step.start[:, None], out=u)
    torch.sub(step.end[:, None], u, out=density)  # the panel's length
    torch.addcmul(u, density, step.x[:, None], out=w)
    density.mul_((step.weight[:, None] / m[:, None]) * INV_SQRT_2PI)
    torch.sub(w, center[:, None], out=u).div_(m[:, None])
    density.mul_(torch.addcmul(u.new_zeros(()), u, u, value=-0.5, out=cdf).exp_())
    link.derivatives(w.mul_(side[:, None]), sign.expand_as(a)[:, None], cdf, pdf, curve)
    J = cdf.mul_(density).sum(1)
    # Beyond the panels F is one: above for a positive loading, below for a negative one.
    end = side * (step.reach * side - center) / m  # u above, -u below
    above = ndtr(torch.minimum(-end, b))
    below = torch.clamp(torch.where(b < 0.0, ndtr(b) - ndtr(end), ndtr(-end) - ndtr(-b)), min=0.0)
    J = J + torch.where(side > 0.0, above, below)
    ratios: list[Tensor] = []
    if order >= 1:
        pdf.mul_(density)
        ratios += [sign * v / J for v in (pdf.sum(1), pdf.mul_(u).sum(1))]
    if order >= 2:
        curve.mul_(density)
        ratios += [v / J for v in (curve.sum(1), curve.mul_(u).sum(1), curve.mul_(u).sum(1))]
    return _Integral(torch.log(J), ratios, J / ndtr(b))


def _log_space(
    a: Tensor, b: Tensor, loading: Tensor, sign: Tensor, nodes: HalfNodes, link: Link
) -> _Integral:
    """The integral of single rows, (m,), on an interval around the mode of the integrand."""
    a, b, loading, sign = (v[:, None] for v in (a, b, loading, sign))

    def slope(u: Tensor) -> Tensor:
        return sign * loading * link.ratios(sign * (a + loading * u), sign)[0] - u

    mode = torch.maximum(falling_root(slope, a), -b)
    fall = torch.clamp(-slope(mode), min=0.0)  # positive where the mode is the end point
    left = torch.clamp(mode + b, max=nodes.width)
    right = nodes.width**2 / (fall + torch.sqrt(fall * fall + nodes.width**2))
    length = left + right
    u = mode - left + length * nodes.x
    x = sign * (a + loading * u)
    log_weight = torch.log(length * nodes.powers[0]) + log_pdf(u)
    g = link.log_cdf(x, sign) + log_weight
    log_J = torch.logsumexp(g, dim=-1)
    weight = torch.exp(g - log_J[:, None])
    r1, r2 = link.ratios(x, sign)
    r1 = sign * r1
    ratios = [(weight * v).sum(-1) for v in (r1, r1 * u, r2, r2 * u, r2 * u * u)]
    return _Integral(log_J, ratios, torch.ones_like(log_J))


def _assemble(
    a: Tensor, b: Tensor, loading: Tensor, side: Tensor,
    integral: _Integral, block: Block, link: Link, order: int,
) -> RowTerms:  # fmt: skip
    """Add the part without a label, floor * PHI(b), and the derivatives in b."""
    log_J, ratios = integral.log_J, integral.ratios
    sign = block.sign
    if block.kind == "soft":
        log_gain_J = torch.log(block.gain) + log_J
        value = torch.logaddexp(torch.log(block.floor) + log_ndtr(b), log_gain_J)
        share = torch.exp(log_gain_J - value)
    else:
        value, share = log_J, torch.ones_like(log_J)
    if order == 0:
        return RowTerms(value)

    # At the end point u = -b, relative to the row's likelihood.
    x = sign * (a - loading * b)
    log_density = log_pdf(b) - value
    end = block.gain * torch.exp(link.log_cdf(x, sign) + log_density)
    end_slope = sign * link.ratios(x, sign)[0] * end
    if block.kind == "soft":
        end = end + torch.exp(torch.log(block.floor) + log_density)
    first = [share * ratios[0], side * end, side * share * ratios[1]]
    if order == 1:
        return RowTerms(value, torch.stack(first))
    raw = [
        share * ratios[2],
        side * end_slope,
        side * share * ratios[3],
        -b * end - loading * end_slope,
        -b * end_slope,
        share * ratios[4],
    ]
    return log_derivatives(value, first, raw)
