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
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .integration import (
    Workspace,
    falling_root,
    half_width,
    legendre_count,
    legendre_rule,
    legendre_rule_on,
)
from .links import INV_SQRT_2PI, LINKS, LOG2_E, Link, log_ndtr, log_pdf, ndtr
from .rows import Block, RowTerms, entries, log_derivatives

_WHOLE_LINE = 1e4  # an index b at which the end point -b has no density left
_LOG_ROWS = 1024  # rows in log space at once
_FLOOR = 1e-8  # of an integral beside its normal weight; a smaller one needs log space


class _Integral(NamedTuple):
    log_J: Tensor  # (B, n)
    ratios: list[Tensor]  # J_a, J_loading, J_aa, J_a,loading, J_loading,loading over J, each (B, n)
    relative: Tensor  # (B, n) the integral over that of its normal weight


class _Nodes:
    """What all nodes on the half line have."""

    __slots__ = ()
    tol: float
    link: Link

    @property
    def floor(self) -> float:
        """Relative to PHI(b); a smaller integral needs the log-space path."""
        return self.link.floor

    @property
    def width(self) -> float:
        """The normal density is cut where it has fallen by exp(-width^2/2)."""
        return half_width(self.tol)


@dataclass(frozen=True, slots=True)
class HalfNodes(_Nodes):
    """Gauss-Legendre nodes on [0, 1], stretched over each row's own interval.

    There are as many as the longest interval of the rows needs that are evaluated together.
    """

    loading: float  # the largest size that they serve
    tol: float
    link: Link
    device: torch.device
    work: Workspace = field(default_factory=Workspace, compare=False, repr=False)

    @classmethod
    def build(cls, loading: float, tol: float, link: Link, device: torch.device) -> HalfNodes:
        """Nodes for loadings of at most this size."""
        return cls(loading, tol, link, device)

    def rule(self, share: float = 1.0) -> tuple[Tensor, Tensor]:
        """Nodes, (K,), and weight * [1, x, x^2], (3, K), for intervals up to this length.

        It is that beside the length of the whole line.
        """
        return legendre_rule_on(self._count(share), self.device)

    def _count(self, share: float) -> int:
        link = self.link
        return legendre_count(
            self.loading, self.tol, entire=link.entire, strip=link.strip, share=share
        )

    @property
    def count(self) -> int:
        """Nodes of a row at most."""
        return self._count(1.0)

    def in_log_space(self, loading: Tensor) -> HalfNodes:
        """Return the nodes of single rows with these loadings."""
        return self

    def integral(
        self, a: Tensor, b: Tensor, loading: Tensor, sign: Tensor, link: Link, order: int
    ) -> _Integral:
        """The integral over u = low + length * x, at (B, n) indices."""
        width = self.width
        low = -torch.clamp(b, max=width)
        start = torch.clamp(low, min=0.0)  # where the density is largest on the half line
        length = torch.sqrt(start * start + width**2) - low
        share = 1.0
        if link.shortens and length.device.type == "cpu" and length.numel():  # read on the host
            share = float(length.max()) / (2.0 * width)
        x, powers = self.rule(share)
        shape = (len(a), len(x), a.shape[1])  # (B, K, n)
        arrays = self.work.stacked(3 + order, shape, a)
        density, z, products = arrays[0], arrays[1], arrays[2:]
        half_square = 0.5 * start * start
        torch.addcmul(low[:, None], length[:, None], x[:, None], out=z)
        fall = (LOG2_E * half_square)[:, None]
        torch.addcmul(fall, z, z, value=-0.5 * LOG2_E, out=density).exp2_()
        by_x = sign * loading
        torch.addcmul((sign * a)[:, None], by_x[:, None], z, out=z)
        link.derivatives(z, sign.expand_as(a)[:, None], density, products.unbind(0))
        # Sums over the nodes of F, F' and F'', each with the powers of x, (order + 1, B, ., n)
        sums = torch.matmul(powers[: order + 1], products)
        J = INV_SQRT_2PI * length * sums[0, :, 0]
        total = sums[0, :, 0]
        ratios: list[Tensor] = []
        if order >= 1:  # the same with the powers of u
            means = sums[1:] / total[:, None]
            by_u = torch.addcmul(low * means[:, :, 0], length, means[:, :, 1])
            ratios += [sign * means[0, :, 0], sign * by_u[0]]
        if order >= 2:
            m = means[1]
            by_ux = torch.addcmul(low * m[:, 1], length, m[:, 2])
            ratios += [m[:, 0], by_u[1], torch.addcmul(low * by_u[1], length, by_ux)]
        return _Integral(torch.log(J) - half_square, ratios, J)


STEEP = 5.0  # |loading| from which a link with panels is a step


@dataclass(frozen=True, slots=True)
class StepNodes(_Nodes):
    """Gauss-Legendre nodes over the index at which a link is taken, panel by panel.

    A row's panels begin at the index of its end point u = -b; a panel below that has no length.
    """

    start: Tensor  # (K,) of the panel to which a node belongs
    end: Tensor  # (K,)
    x: Tensor  # (K,) place in the panel, between 0 and 1
    weight: Tensor  # (K,) per unit of the panel's length
    reach: float  # |w| beyond which the function is 0 or 1
    tol: float
    link: Link
    work: Workspace = field(default_factory=Workspace, compare=False, repr=False)

    @property
    def count(self) -> int:
        """Nodes of a row, but for the few rows in log space."""
        return len(self.x)

    @classmethod
    def build(cls, tol: float, link: Link, device: torch.device) -> StepNodes:
        """Nodes for any loading that is not small."""
        return cls(*_step_rule(tol, link.name, device), tol, link)

    def in_log_space(self, loading: Tensor) -> HalfNodes:
        """Return the nodes of single rows with these loadings."""
        largest = float(loading.abs().max())
        return HalfNodes.build(largest, self.tol, self.link, loading.device)

    def integral(
        self, a: Tensor, b: Tensor, loading: Tensor, sign: Tensor, link: Link, order: int
    ) -> _Integral:
        """The integral over the index at which the link is taken."""
        side, m = torch.sign(sign * loading), loading.abs()
        center = side * sign * a  # w at u = 0
        low = center - m * b  # w at u = -b
        shape = (len(a), self.count, a.shape[1])  # (B, K, n)
        arrays = self.work.stacked(4 + order, shape, a)
        u, w, density, products = arrays[0], arrays[1], arrays[2], arrays[3:]
        torch.maximum(torch.minimum(low[:, None], self.end[:, None]), self.start[:, None], out=u)
        torch.sub(self.end[:, None], u, out=density)  # the panel's length
        torch.addcmul(u, density, self.x[:, None], out=w)
        torch.sub(w, center[:, None], out=u).div_(m[:, None])
        density.mul_((self.weight[:, None] / m[:, None]) * INV_SQRT_2PI)
        square = torch.addcmul(u.new_zeros(()), u, u, value=-0.5 * LOG2_E, out=products[0])
        density.mul_(square.exp2_())
        link.derivatives(
            w.mul_(side[:, None]), sign.expand_as(a)[:, None], density, products.unbind(0)
        )
        J = products[0].sum(1)
        # Beyond the panels F is one: above for a positive loading, below for a negative one.
        end = side * (self.reach * side - center) / m  # u above, -u below
        above = ndtr(torch.minimum(-end, b))
        below = torch.where(b < 0.0, ndtr(b) - ndtr(end), ndtr(-end) - ndtr(-b))
        J = J + torch.where(side > 0.0, above, torch.clamp(below, min=0.0))
        ratios: list[Tensor] = []
        if order >= 1:
            slope = products[1]
            ratios += [sign * v / J for v in (slope.sum(1), slope.mul_(u).sum(1))]
        if order >= 2:
            bend = products[2]
            ratios += [v / J for v in (bend.sum(1), bend.mul_(u).sum(1), bend.mul_(u).sum(1))]
        return _Integral(torch.log(J), ratios, J / ndtr(b))


@lru_cache(maxsize=64)
def _step_rule(
    tol: float, name: str, device: torch.device
) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    """The fields of :class:`StepNodes`."""
    link = LINKS[name]
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
    return start, end, x, weight, reach


def step_counts(tol: float, link: Link) -> list[int]:
    """Return the nodes on each panel of :class:`StepNodes` for an error ``tol``."""
    share = (math.log(1.0 / tol) + 4.0) / (math.log(1e13) + 4.0)
    return [max(4, math.ceil(min(share, 1.1) * count)) for count in link.panel_nodes]


def half_line(
    a: Tensor,
    b: Tensor,
    loading: Tensor,
    block: Block,
    nodes: HalfNodes | StepNodes,
    link: Link,
    order: int,
) -> RowTerms:
    """Log-likelihood of "hard" and "soft" rows and its derivatives up to ``order``.

    Parameters
    ----------
    a, b : Tensor
        (B, n) outcome and selection indices.
    loading : Tensor
        (B,) signed loading of the selection error in the outcome index.
    """
    if block.kind == "hard":
        return _on_half_line(a, b, loading[:, None], block, nodes, link, order)
    whole_line = block.tilt == 0.0
    side = torch.where(block.tilt < 0.0, -1.0, 1.0).to(b.dtype)  # (n,) or (B, n)
    reflected = torch.where(whole_line, _WHOLE_LINE, side * b)
    terms = _on_half_line(a, reflected, side * loading[:, None], block, nodes, link, order)
    value = torch.where(whole_line, terms.value - math.log(2.0), terms.value)
    for derivatives in (terms.first, terms.second):
        if derivatives is not None:  # b and loading; ab and a loading
            derivatives[1:3] *= side
    return replace(terms, value=value)


def _on_half_line(
    a: Tensor,
    b: Tensor,
    loading: Tensor,
    block: Block,
    nodes: HalfNodes | StepNodes,
    link: Link,
    order: int,
) -> RowTerms:
    """:func:`half_line` of rows whose half line is u > -b, with loadings (B, 1) or (B, n)."""
    integral = nodes.integral(a, b, loading, block.sign, link, order)
    members, rows = _rows_below(integral.relative, nodes.floor)
    by_row = loading.expand_as(a)
    for first in range(0, len(rows), _LOG_ROWS):
        member, row = members[first : first + _LOG_ROWS], rows[first : first + _LOG_ROWS]
        exact = _log_space(
            a[member, row], b[member, row], by_row[member, row],
            entries(block.sign, member, row), nodes.in_log_space(by_row[member, row]), link,
        )  # fmt: skip
        integral.log_J[member, row] = exact.log_J
        for whole, part in zip(integral.ratios, exact.ratios, strict=False):
            whole[member, row] = part
    return _assemble(a, b, loading, integral, block, link, order)


def _rows_below(relative: Tensor, floor: float) -> tuple[Tensor, Tensor]:
    """Members and rows whose integral is too small for these nodes (or is not a number)."""
    member, row = torch.nonzero(~(relative >= floor), as_tuple=True)
    return member, row


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
    along, powers = nodes.rule()
    u = mode - left + length * along
    x = sign * (a + loading * u)
    log_weight = torch.log(length * powers[0]) + log_pdf(u)
    g = link.log_cdf(x, sign) + log_weight
    log_J = torch.logsumexp(g, dim=-1)
    weight = torch.exp(g - log_J[:, None])
    r1, r2 = link.ratios(x, sign)
    r1 = sign * r1
    ratios = [(weight * v).sum(-1) for v in (r1, r1 * u, r2, r2 * u, r2 * u * u)]
    return _Integral(log_J, ratios, torch.ones_like(log_J))


def _assemble(
    a: Tensor, b: Tensor, loading: Tensor, integral: _Integral, block: Block, link: Link, order: int
) -> RowTerms:
    """Add the part without a label, floor * PHI(b), and the derivatives in b."""
    value, ratios = integral.log_J, integral.ratios
    sign, soft = block.sign, block.kind == "soft"
    if soft:
        log_gain_J = torch.log(block.gain) + value
        value = torch.logaddexp(torch.log(block.floor) + log_ndtr(b), log_gain_J)
        share = torch.exp(log_gain_J - value)
        ratios = [share * ratio for ratio in ratios]
    if order == 0:
        return RowTerms(value)

    # At the end point u = -b, relative to the row's likelihood.
    x = sign * (a - loading * b)
    log_density = log_pdf(b) - value
    end = torch.exp(link.log_cdf(x, sign) + log_density)
    if soft:
        end = block.gain * end
    end_slope = sign * link.ratios(x, sign)[0] * end
    if soft:
        end = end + torch.exp(torch.log(block.floor) + log_density)
    first = [ratios[0], end, ratios[1]]
    if order == 1:
        return RowTerms(value, torch.stack(first))
    by_b = -b * end_slope
    bb = torch.addcmul(-b * end, loading, end_slope, value=-1.0)
    return log_derivatives(value, first, [ratios[2], end_slope, ratios[3], bb, by_b, ratios[4]])
