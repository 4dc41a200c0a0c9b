"""The free form with the latent error correlation as a parameter of its own.

With V = pi^2/3 let c be the error correlation rho sigma/sqrt(sigma^2 + V) and k the normal error's
share sigma/sqrt(sigma^2 + V) of the total error's standard deviation. For a given c that share runs
from \\|c\\| (\\|rho\\| = 1, the loading form) to one (sigma = infinity, a probit outcome):

    c = tanh(atcorr),  k = |c| + (1 - |c|) q,  q = 1/(1 + exp(-mix)),
    sigma = sqrt(V) k/sqrt(1 - k^2),  rho = c/k

so a fixed ``atcorr`` leaves ``mix`` as the one nuisance of the dependence, free of the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from .blocks import Block, RowTerms
from .forms import FreeForm
from .integration import Integration, Nodes, Quadrature, Simulation

_MIX_MAX = 6.0  # q between 0.0025 and 0.9975: the faces beyond have forms of their own


@dataclass(frozen=True)
class CorrelationForm:
    """sigma and rho apart, in the coordinates (mix, atcorr); outcome coefficients standardized.

    Standardized means divided by sqrt(1 + 3 sigma^2/pi^2), as in :class:`FreeForm`.

    Examples
    --------
    >>> import torch
    >>> at = torch.tensor([[0.0, 0.5]], dtype=torch.float64)
    >>> lnsigma, athrho = CorrelationForm().free_values(at)[0]
    >>> sigma, rho = lnsigma.exp(), athrho.tanh()
    >>> torch.atanh(rho * sigma / (sigma**2 + torch.pi**2 / 3).sqrt())
    tensor(0.5000, dtype=torch.float64)
    """

    integration: Integration = field(default_factory=Quadrature)
    names: ClassVar[tuple[str, ...]] = ("mix", "atcorr")
    lower: ClassVar[tuple[float, ...]] = (-_MIX_MAX, -math.atanh(0.999))
    upper: ClassVar[tuple[float, ...]] = (_MIX_MAX, math.atanh(0.999))
    shares_nodes: ClassVar[bool] = False

    @property
    def simulation(self) -> Simulation | None:
        return self._free.simulation

    @property
    def _free(self) -> FreeForm:
        return FreeForm(self.integration, standardized=True)

    def free_values(self, dependence: Tensor) -> Tensor:
        """(B, 2) mix and atcorr -> lnsigma and athrho."""
        return _to_free(dependence)[0]

    def nodes(self, dependence: np.ndarray, device: torch.device) -> Nodes:
        values = self.free_values(torch.as_tensor(dependence)).numpy()
        return self._free.nodes(values, device)

    def sizes(self, dependence: np.ndarray) -> np.ndarray:
        return self._free.sizes(self.free_values(torch.as_tensor(dependence)).numpy())

    def terms(
        self, a: Tensor, b: Tensor, dependence: Tensor, block: Block, nodes: Nodes, order: int
    ) -> RowTerms:
        values, slope, curve = _to_free(dependence)
        inner = self._free.terms(a, b, values, block, nodes, order)
        if inner.first is None:
            return inner
        g_a, g_b, *g = inner.first
        s_x, s_t, r_x, r_t = slope[..., None]  # of lnsigma and athrho in (mix, atcorr), (B, 1)
        first = torch.stack([g_a, g_b, s_x * g[0] + r_x * g[1], s_t * g[0] + r_t * g[1]])
        if inner.second is None:
            return RowTerms(inner.value, first)
        aa, ab, as_, ar, bb, bs, br, ss, sr, rr = inner.second

        def both(i: tuple[Tensor, Tensor], j: tuple[Tensor, Tensor], at: int) -> Tensor:
            quadratic = i[0] * j[0] * ss + (i[0] * j[1] + i[1] * j[0]) * sr + i[1] * j[1] * rr
            return quadratic + curve[at, :, None] * g[0] + curve[3 + at, :, None] * g[1]

        x, t = (s_x, r_x), (s_t, r_t)
        second = torch.stack(
            [
                aa, ab, s_x * as_ + r_x * ar, s_t * as_ + r_t * ar,
                bb, s_x * bs + r_x * br, s_t * bs + r_t * br,
                both(x, x, 0), both(x, t, 1), both(t, t, 2),
            ]
        )  # fmt: skip
        return RowTerms(inner.value, first, second)


def _to_free(dependence: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(lnsigma, athrho), (B, 2), with derivatives in x = mix and t = atcorr.

    First derivatives, (4, B): lnsigma_x, lnsigma_t, athrho_x, athrho_t; second ones, (6, B):
    lnsigma_xx, lnsigma_xt, lnsigma_tt, then those of athrho.
    """
    mix, atcorr = dependence.unbind(-1)
    side = torch.where(atcorr < 0, -1.0, 1.0).to(dependence.dtype)
    m, q = (side * atcorr).tanh(), mix.sigmoid()
    m_t = side * (1.0 - m * m)
    m_tt = -2.0 * m * (1.0 - m * m)
    k = m + (1.0 - m) * q
    k_x, k_t = (1.0 - m) * q * (1.0 - q), (1.0 - q) * m_t
    k_xx, k_xt, k_tt = k_x * (1.0 - 2.0 * q), -q * (1.0 - q) * m_t, (1.0 - q) * m_tt
    rest = (1.0 - m) * (1.0 - q) * (1.0 + k)  # 1 - k^2 without cancellation

    lnsigma = 0.5 * math.log(math.pi**2 / 3.0) + k.log() - 0.5 * rest.log()
    s1, s2 = 1.0 / (k * rest), (3.0 * k * k - 1.0) / (k * rest) ** 2  # in k
    # |athrho| = (log(k + m) - log(k - m))/2 with k - m = (1 - m) q
    total, gap = k + m, (1.0 - m) * q
    athrho = 0.5 * side * (total / gap).log()
    n_t, n_tt = k_t + m_t, k_tt + m_tt  # of k + m in t; in x it moves as k does
    r_x = k_x / total - (1.0 - q)
    r_t = n_t / total + m_t / (1.0 - m)
    r_xx = k_xx / total - (k_x / total) ** 2 + q * (1.0 - q)
    r_xt = k_xt / total - k_x * n_t / total**2
    r_tt = n_tt / total - (n_t / total) ** 2 + m_tt / (1.0 - m) + (m_t / (1.0 - m)) ** 2
    half = 0.5 * side
    slope = torch.stack([s1 * k_x, s1 * k_t, half * r_x, half * r_t])
    curve = torch.stack(
        [
            s2 * k_x**2 + s1 * k_xx,
            s2 * k_x * k_t + s1 * k_xt,
            s2 * k_t**2 + s1 * k_tt,
            half * r_xx,
            half * r_xt,
            half * r_tt,
        ]
    )
    return torch.stack([lnsigma, athrho], dim=-1), slope, curve
