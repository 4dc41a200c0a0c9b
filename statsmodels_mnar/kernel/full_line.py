"""The row likelihood with sigma and rho apart: an integral over the whole line.

    I = INT F(a + sigma e) PHI(c (b cosh t + e sinh t)) phi(e) de,   c = 2s' - 1, t = athrho

with F = floor + gain * L(sign * u). The hyperbolic form of 1/sqrt(1 - rho^2) and
rho/sqrt(1 - rho^2) has no cancellation near |rho| = 1. Every derivative is a sum over the nodes of
a few products, each against [w, w e, w e^2], so the work is matrix products with a (K, 3) matrix.

Axes: B parameter vectors, K nodes, n rows: with the rows last every pass runs along
contiguous memory. Parameters in the order a, b, lnsigma, athrho.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from .integration import Nodes, falling_root, node_sums
from .links import INV_SQRT_2PI, LOG2_E, SQRT_HALF, log_ndtr, log_pdf, mills
from .rows import Block, RowTerms, entries, log_derivatives


def full_line(
    a: Tensor, b: Tensor, lnsigma: Tensor, athrho: Tensor, block: Block, nodes: Nodes, order: int
) -> RowTerms:
    """Log-likelihood of "hard" and "soft" rows and its derivatives up to ``order``.

    Parameters
    ----------
    a, b : Tensor
        (B, n) outcome and selection indices.
    lnsigma, athrho : Tensor
        (B,) log sigma and the inverse hyperbolic tangent of rho.
    """
    lnsigma, athrho = lnsigma[:, None], athrho[:, None]
    terms = _linear_space(a, b, lnsigma, athrho, block, nodes, order)
    member, row = _rows_below(terms.value, math.log(nodes.floor))
    if member.numel():
        exact = _log_space(
            a[member, row], b[member, row], lnsigma[member], athrho[member],
            block, nodes, member, row, order,
        )  # fmt: skip
        for whole, part in zip(
            (terms.value, terms.first, terms.second),
            (exact.value, exact.first, exact.second),
            strict=True,
        ):
            if whole is not None and part is not None:
                whole[..., member, row] = part
    return terms


def _rows_below(log_value: Tensor, floor: float) -> tuple[Tensor, Tensor]:
    """Members and rows whose likelihood is too small for the shared nodes (or is not a number)."""
    member, row = torch.nonzero(~(log_value >= floor), as_tuple=True)
    return member, row


def _linear_space(
    a: Tensor, b: Tensor, lnsigma: Tensor, athrho: Tensor, block: Block, nodes: Nodes, order: int
) -> RowTerms:
    soft = block.kind == "soft"
    sigma, cosh, sinh = lnsigma.exp(), athrho.cosh(), athrho.sinh()  # (B, 1)
    sign, floor, gain, c = block.sign, block.floor, block.gain, block.tilt  # (n,) or (B, n)

    shape = (len(a), nodes.count, a.shape[1])  # (B, K, n)
    L, x, cdf, labelled, D, pdf = nodes.work.arrays(6, shape, a)

    def line(constant: Tensor, slope: Tensor, out: Tensor) -> Tensor:  # constant + slope * e
        return torch.addcmul(constant[:, None], slope[:, None], nodes.e, out=out)

    line(sign * a, sign * sigma, L).sigmoid_()
    line(-SQRT_HALF * cosh * (c * b), -SQRT_HALF * sinh * c, x)  # PHI = erfc(x)/2
    torch.erfc(x, out=cdf)
    torch.mul(L, cdf, out=labelled)
    total = node_sums(labelled, nodes, 1)
    if soft:
        total = floor * node_sums(cdf, nodes, 1) + gain * total
    total = total[0]
    value = torch.log(0.5 * total)
    if order == 0:
        return RowTerms(value)

    # Sums of a product with PHI carry 1/2 and those with phi 1/sqrt(2 pi); both are divided by I.
    # In d, h and f the outcome factor is L, L' and L''; in g it is F.
    torch.addcmul(L, L, L, value=-1.0, out=D)  # L'(u) = L(1 - L)
    torch.addcmul(x.new_zeros(()), x, x, value=-LOG2_E, out=pdf).exp2_()
    scale_cdf = (sign * gain if soft else sign) / total
    scale_pdf = 2.0 * INV_SQRT_2PI / total
    slope = cdf.mul_(D)
    d = node_sums(slope, nodes, 3 if order == 2 else 2)
    labelled_pdf = torch.mul(L, pdf, out=labelled)
    g = node_sums(labelled_pdf, nodes, 2)
    if soft:
        g = gain * g + floor * node_sums(pdf, nodes, 2)
    g = g * scale_pdf
    z_b, z_t0, z_t1 = c * cosh, c * sinh * b, c * cosh  # dz/db; dz/dt = z_t0 + z_t1 e
    l_a = d[0] * scale_cdf
    l_b = z_b * g[0]
    l_sigma = sigma * d[1] * scale_cdf
    l_rho = z_t0 * g[0] + z_t1 * g[1]
    first = [l_a, l_b, l_sigma, l_rho]
    if order == 1:
        return RowTerms(value, torch.stack(first))

    h = d - 2.0 * node_sums(slope.mul_(L), nodes, 3)  # L'' = L'(1 - 2L)
    h = h * (gain / total if soft else 1.0 / total)
    f = node_sums(D.mul_(pdf), nodes, 3) * (scale_pdf * (sign * gain if soft else sign))
    y = node_sums(labelled_pdf.mul_(x), nodes, 3)  # F phi z, with z = -sqrt(2) x
    if soft:
        y = gain * y + floor * node_sums(pdf.mul_(x), nodes, 3)
    y = y * (scale_pdf * (-1.0 / SQRT_HALF))
    raw = [
        h[0],
        z_b * f[0],
        sigma * h[1],
        z_t0 * f[0] + z_t1 * f[1],
        -z_b * z_b * y[0],
        sigma * z_b * f[1],
        c * sinh * g[0] - z_b * (z_t0 * y[0] + z_t1 * y[1]),
        sigma * sigma * h[2] + l_sigma,
        sigma * (z_t0 * f[1] + z_t1 * f[2]),
        y[0] - (z_t0 * z_t0 * y[0] + 2.0 * z_t0 * z_t1 * y[1] + z_t1 * z_t1 * y[2]),
    ]
    return log_derivatives(value, first, raw)


def _log_space(
    a: Tensor, b: Tensor, lnsigma: Tensor, athrho: Tensor,
    block: Block, nodes: Nodes, member: Tensor, row: Tensor, order: int,
) -> RowTerms:  # fmt: skip
    """Evaluate the likelihood of individual rows in log space.

    Row ``row[i]`` of member ``member[i]`` has the indices a[i], b[i], (m,), and its parameters in
    lnsigma[i], athrho[i], (m, 1).

    Derivatives use Louis' identity, l'' = E[g''] + Cov(g') with g the log of the integrand, whose
    terms stay of moderate size where I'' / I and (I'/I)^2 would cancel.
    """
    sigma, cosh, sinh = lnsigma.exp(), athrho.cosh(), athrho.sinh()
    a, b = a[:, None], b[:, None]
    sign, floor, gain, c = (
        entries(v, member, row)[:, None] for v in (block.sign, block.floor, block.gain, block.tilt)
    )

    def outcome(e: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log F and its two derivatives in u = a + sigma e."""
        u = sign * (a + sigma * e)
        log_gain_L = torch.log(gain) + logsigmoid(u)
        log_F = torch.logaddexp(torch.log(floor), log_gain_L)
        share = torch.exp(log_gain_L - log_F)
        upper = torch.sigmoid(-u)  # 1 - L
        r1 = share * upper
        return log_F, sign * r1, r1 * (2.0 * upper - 1.0) - r1 * r1

    def select(e: Tensor) -> tuple[Tensor, Tensor]:
        """The probit index z and phi(z)/PHI(z)."""
        z = c * (b * cosh + e * sinh)
        return z, mills(z)

    def centre() -> Tensor:
        """Where the integrand's mass is: between the modes of its two log-concave parts.

        Those are gain * L and the floor. The lower one matters only where it is near: within t of
        the other's mode its height has to make up for exp(-t^2/2).
        """

        def mode(of_label: float) -> Tensor:
            return falling_root(
                lambda e: (
                    of_label * sign * sigma * torch.sigmoid(-sign * (a + sigma * e))
                    + c * sinh * select(e)[1]
                    - e
                ),
                a,
            )

        def height(e: Tensor) -> Tensor:
            return outcome(e)[0] + log_ndtr(select(e)[0]) - 0.5 * e * e

        labelled = mode(1.0)
        if block.kind == "hard":
            return labelled
        bare = mode(0.0)
        bare_wins = height(bare) > height(labelled)
        high, low = torch.where(bare_wins, bare, labelled), torch.where(bare_wins, labelled, bare)
        return high + 0.5 * (low - high).clamp(-4.0, 4.0)

    if nodes.recenter:
        e = centre() + nodes.e[member, :, 0]
        step = nodes.e[member, 1, 0] - nodes.e[member, 0, 0]
        log_weight = torch.log(step)[:, None] + log_pdf(e)
    else:
        owner = member if len(nodes.e) > 1 else torch.zeros_like(member)
        e = nodes.e[member, :, 0] if nodes.shared else nodes.e[owner, :, row]
        log_weight = torch.log(nodes.weight[member, :, 0] if nodes.shared else nodes.weight[0])

    log_F, r1, r2 = outcome(e)
    z, m = select(e)
    g = log_F + log_ndtr(z) + log_weight
    value = torch.logsumexp(g, dim=-1)
    if order == 0:
        return RowTerms(value)
    weight = torch.exp(g - value[:, None])

    def mean(v: Tensor) -> Tensor:
        return (weight * v).sum(-1)

    z_b, z_t = c * cosh, c * (b * sinh + e * cosh)
    slopes = torch.stack([r1, m * z_b, r1 * sigma * e, m * z_t])  # (4, m, K)
    first = mean(slopes)
    if order == 1:
        return RowTerms(value, first)
    m1 = -m * (z + m)
    zero = torch.zeros_like(r1)
    curvature = [
        r2, zero, r2 * sigma * e, zero,
        m1 * z_b**2, zero, m1 * z_b * z_t + m * c * sinh,
        r2 * (sigma * e) ** 2 + r1 * sigma * e, zero,
        m1 * z_t**2 + m * z,
    ]  # fmt: skip
    spread = slopes - first[..., None]
    index = torch.triu_indices(4, 4, device=a.device)
    second = mean(torch.stack(curvature) + spread[index[0]] * spread[index[1]])
    return RowTerms(value, first, second)
