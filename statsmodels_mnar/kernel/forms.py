r"""The forms of the model: its dependence parameters, and a row's terms in them.

=========== =============== ========================================================================
form        parameters      model
=========== =============== ========================================================================
FreeForm    lnsigma, athrho logit outcome, sigma and rho apart (the paper's model)
LoadingForm loading         logit outcome on the face \|rho\| = 1, loading = rho sigma
ProbitForm  athrho          probit outcome, bivariate normal errors (the face sigma -> infinity)
=========== =============== ========================================================================

With V = pi^2/3 let c be the error correlation rho sigma/sqrt(sigma^2 + V) and k the normal error's
share sigma/sqrt(sigma^2 + V) of the total error's standard deviation. For a given c that share runs
from \|c\| (\|rho\| = 1, the loading form) to one (sigma = infinity, a probit outcome):

    c = tanh(atcorr),  k = |c| + (1 - |c|) q,  q = 1/(1 + exp(-mix)),
    sigma = sqrt(V) k/sqrt(1 - k^2),  rho = c/k

so a fixed ``atcorr`` leaves ``mix`` as the one nuisance of the dependence, free of the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from .bivariate import CORNER, PlackettNodes, near_corner, plackett, plackett_counts
from .full_line import full_line
from .half_line import STEEP, HalfNodes, StepNodes, half_line, step_counts
from .integration import Integration, Nodes, Quadrature, Simulation, Workspace, legendre_sizes
from .links import LOGIT, PROBIT, Link, log_ndtr, log_ndtr_and_mills
from .rows import Block, RowTerms

Kernel = Callable[[Tensor, Tensor, Tensor, Block, Any], RowTerms]
"""Indices, (B, n), one dependence parameter, (B,), a block and nodes -> the rows' terms."""


@dataclass(frozen=True, slots=True)
class MemberNodes:
    """Nodes of the members of a batch, some of which may need nodes of another kind."""

    parts: tuple[tuple[Tensor | None, Any], ...]  # the members, (b,) or None for all; their nodes
    order: Tensor | None  # (B,) that puts the parts, one after the other, into the members' order
    work: Workspace | None = None

    @classmethod
    def build(
        cls, kinds: np.ndarray, build: Callable[[int, np.ndarray], Any], device: torch.device
    ) -> MemberNodes:
        """Build the nodes of all members of each kind, (B,), by what a kind and they ask for."""
        found = [(kind, np.flatnonzero(kinds == kind)) for kind in np.unique(kinds).tolist()]
        if len(found) == 1:
            return cls(((None, build(*found[0])),), None)
        parts = tuple((torch.as_tensor(of, device=device), build(kind, of)) for kind, of in found)
        return cls(parts, torch.cat([of for of, _ in parts]).argsort())

    @property
    def count(self) -> int:
        """Nodes of a row, but for the few rows in log space."""
        return max(1 if nodes is None else nodes.count for _, nodes in self.parts)

    def terms(self, kernel: Kernel, a: Tensor, b: Tensor, t: Tensor, block: Block) -> RowTerms:
        """The terms of all members, each by its own nodes."""
        found = []
        for of, nodes in self.parts:
            if nodes is not None and self.work is not None:
                nodes = replace(nodes, work=self.work)
            own = (a, b, t, block) if of is None else (a[of], b[of], t[of], block.labels(of))
            found.append(kernel(*own, nodes))
        return found[0] if self.order is None else RowTerms.joined(found, self.order)


Parametrization = Literal["free", "loading", "probit"]


@dataclass(frozen=True, slots=True)
class Dependence:
    """Point values; sigma is infinite for a probit outcome."""

    sigma: float
    rho: float
    error_corr: float


class Form(Protocol):
    """What the objective, the search and the tables ask of a form."""

    kind: ClassVar[Parametrization]
    corr_name: ClassVar[str]  # under which tables show the error correlation
    names: ClassVar[tuple[str, ...]]
    lower: ClassVar[tuple[float, ...]]  # an optimiser stops here and reports the boundary
    upper: ClassVar[tuple[float, ...]]
    shares_nodes: ClassVar[bool]  # nodes for one member serve every less demanding one

    @property
    def link(self) -> Link:
        """The link of the outcome given its errors."""

    @property
    def simulation(self) -> Simulation | None:
        """The draws, where every row has nodes of its own."""

    def dependence(self, values: np.ndarray) -> Dependence:
        """Return sigma, rho and the error correlation at these (d,) parameters."""

    def atcorr(self, values: np.ndarray) -> float:
        """Return atanh(error_corr), finite at the bounds."""

    def corr_slope(self, values: np.ndarray) -> np.ndarray:
        """Return the derivatives of atanh(error_corr) in the parameters, (d,)."""

    def outcome_units(self, values: np.ndarray) -> float:
        """Return by how much outcome coefficients exceed those of independent equations."""

    def natural_units(self, values: np.ndarray) -> float:
        """Return what outcome coefficients are multiplied by to be those of a user."""

    def at_corr(self, atcorr: np.ndarray) -> np.ndarray | None:
        """Return the one parameter at these atanh(error_corr), None where there are two."""

    def to_bound(self) -> tuple[float, ...]:
        """Return values through which a search passes on its way to the upper bound."""

    def error_scale(self, values: np.ndarray) -> tuple[float, float, float]:
        """Return the size of the normal error in the outcome index, and its derivatives.

        They are the first two in the first parameter. The size is 0 where the link has it.
        """

    def marginal(self, values: np.ndarray) -> np.ndarray:
        """Return parameters of the same outcome equation whose selection does not matter."""

    def controlled(self) -> Form:
        """Return the form integrated by a rule whose error is controlled."""

    def coarse(self, tol: float) -> Form:
        """Return the form with an error of ``tol`` where it is smaller and can be chosen."""

    def corner(self, values: np.ndarray) -> int:
        """Return +1 or -1 where rho is so close to it that the likelihood may be flat, else 0."""

    def wider(self) -> Form | None:
        """Return the form with its full bounds, where it has narrower ones."""

    def nodes(self, dependence: np.ndarray, device: torch.device) -> Any:
        """Nodes shared by the rows for these (B, d) parameters; not called under simulation."""

    def sizes(self, dependence: np.ndarray) -> np.ndarray:
        """Nodes that each member needs, (B,); members of one size are evaluated together."""

    def terms(
        self, a: Tensor, b: Tensor, dependence: Tensor, block: Block, nodes: Any, order: int
    ) -> RowTerms:
        """Terms of "hard" and "soft" rows for (B, n) indices and (B, d) parameters."""


class _Common:
    """What most forms answer alike."""

    kind: ClassVar[Parametrization] = "free"
    corr_name: ClassVar[str] = "error_corr"

    def dependence(self, values: np.ndarray) -> Dependence:
        raise NotImplementedError

    def atcorr(self, values: np.ndarray) -> float:
        corr = self.dependence(values).error_corr
        return math.atanh(min(max(corr, -1.0 + 1e-15), 1.0 - 1e-15))

    def natural_units(self, values: np.ndarray) -> float:
        return 1.0

    def at_corr(self, atcorr: np.ndarray) -> np.ndarray | None:
        return None

    def marginal(self, values: np.ndarray) -> np.ndarray:
        return np.append(values[:-1], 0.0)  # rho, which a certain selection makes irrelevant

    def controlled(self) -> Form:
        return self  # type: ignore[return-value]

    def to_bound(self) -> tuple[float, ...]:
        return ()

    def corner(self, values: np.ndarray) -> int:
        return 0

    def wider(self) -> Form | None:
        return None


_ATHRHO_MAX = math.atanh(0.9999)  # of the free form: beyond it lies the loading form
_ATHRHO_CORNER = math.atanh(1.0 - 1e-13)  # of the probit form: less than 1e-6 below the limit


@dataclass(frozen=True)
class FreeForm(_Common):
    """sigma and rho apart, by quadrature or simulation.

    With ``standardized`` the outcome coefficients are divided by sqrt(1 + 3 sigma^2/pi^2), the
    total error's standard deviation in units of the logistic one. The likelihood is nearly constant
    along sigma for fixed standardized coefficients, so Newton searches there. An offset is not
    a coefficient and keeps its size.

    Examples
    --------
    >>> FreeForm(Quadrature(tol=1e-12)).names
    ('lnsigma', 'athrho')
    """

    integration: Integration = field(default_factory=Quadrature)
    standardized: bool = False
    names: ClassVar[tuple[str, ...]] = ("lnsigma", "athrho")
    lower: ClassVar[tuple[float, ...]] = (math.log(1e-3), -_ATHRHO_MAX)
    upper: ClassVar[tuple[float, ...]] = (math.log(50.0), _ATHRHO_MAX)
    shares_nodes: ClassVar[bool] = False
    link: ClassVar[Link] = LOGIT

    @property
    def simulation(self) -> Simulation | None:
        return self.integration if isinstance(self.integration, Simulation) else None

    def dependence(self, values: np.ndarray) -> Dependence:
        sigma, rho = math.exp(values[0]), math.tanh(values[1])
        return Dependence(sigma, rho, rho * sigma / math.sqrt(sigma**2 + LOGIT.variance))

    def corr_slope(self, values: np.ndarray) -> np.ndarray:
        at = self.dependence(values)
        share = LOGIT.variance / (at.sigma**2 + LOGIT.variance)
        weight = at.sigma / math.sqrt(at.sigma**2 + LOGIT.variance)
        slopes = np.array([at.error_corr * share, (1.0 - at.rho**2) * weight])
        return slopes / (1.0 - at.error_corr**2)

    def outcome_units(self, values: np.ndarray) -> float:
        return 1.0 if self.standardized else outcome_scale(math.exp(values[0]))

    def error_scale(self, values: np.ndarray) -> tuple[float, float, float]:
        sigma = math.exp(values[0])
        return sigma, sigma, sigma

    def controlled(self) -> Form:
        return FreeForm(self.integration.controlled())

    def coarse(self, tol: float) -> Form:
        rule = self.integration
        if not isinstance(rule, Quadrature) or rule != rule.controlled():
            return self
        return replace(self, integration=replace(rule, tol=max(rule.tol, tol)))

    def nodes(self, dependence: np.ndarray, device: torch.device) -> Nodes:
        assert isinstance(self.integration, Quadrature)
        sigma = np.exp(dependence[:, 0])
        return self.integration.nodes(sigma, dependence[:, 1], device)

    def sizes(self, dependence: np.ndarray) -> np.ndarray:
        if isinstance(self.integration, Simulation):
            return np.full(len(dependence), self.integration.n_draws)
        return self.integration.sizes(np.exp(dependence[:, 0]), dependence[:, 1])

    def terms(
        self, a: Tensor, b: Tensor, dependence: Tensor, block: Block, nodes: Nodes, order: int
    ) -> RowTerms:
        lnsigma, athrho = dependence[:, 0], dependence[:, 1]
        if not self.standardized:
            return full_line(a, b, lnsigma, athrho, block, nodes, order)
        v = 3.0 / math.pi**2 * torch.exp(2.0 * lnsigma[:, None])
        k = torch.sqrt(1.0 + v)
        scaled = a - block.offset
        inner = full_line(scaled * k + block.offset, b, lnsigma, athrho, block, nodes, order)
        if inner.first is None:
            return inner
        up, upup = scaled * v / k, scaled * v * (2.0 + v) / k**3  # of scaled * k, in lnsigma
        g_a, g_b, g_s, g_t = inner.first
        first = torch.stack([k * g_a, g_b, up * g_a + g_s, g_t])
        if inner.second is None:
            return RowTerms(inner.value, first)
        aa, ab, as_, at, bb, bs, bt, ss, st, tt = inner.second
        second = torch.stack(
            [
                k * k * aa,
                k * ab,
                v / k * g_a + k * (up * aa + as_),
                k * at,
                bb,
                up * ab + bs,
                bt,
                up * up * aa + 2.0 * up * as_ + ss + upup * g_a,
                up * at + st,
                tt,
            ]
        )
        return RowTerms(inner.value, first, second)


def outcome_scale(sigma: float, link: Link = LOGIT) -> float:
    """Return the total error's standard deviation over that of the outcome's own error.

    For the logit link that is sqrt(1 + 3 sigma^2/pi^2): coefficients of the free form over
    standardized ones.

    Examples
    --------
    >>> round(outcome_scale(1.0), 4)
    1.1419
    """
    return math.sqrt(1.0 + sigma**2 / link.variance)


@dataclass(frozen=True)
class LoadingForm(_Common):
    """The selection error itself in the outcome index, by Gauss-Legendre quadrature.

    Examples
    --------
    >>> LoadingForm().names
    ('loading',)
    """

    tol: float = 1e-10
    link: Link = LOGIT
    kind: ClassVar[Parametrization] = "loading"
    names: ClassVar[tuple[str, ...]] = ("loading",)
    lower: ClassVar[tuple[float, ...]] = (-50.0,)
    upper: ClassVar[tuple[float, ...]] = (50.0,)
    simulation: ClassVar[None] = None
    shares_nodes: ClassVar[bool] = True

    def dependence(self, values: np.ndarray) -> Dependence:
        sigma, rho = abs(values[0]), float(np.sign(values[0]))
        return Dependence(sigma, rho, rho * sigma / math.sqrt(sigma**2 + self.link.variance))

    def corr_slope(self, values: np.ndarray) -> np.ndarray:
        total = values[0] ** 2 + self.link.variance
        slope = self.link.variance / total**1.5
        return np.array([slope / (1.0 - self.dependence(values).error_corr ** 2)])

    def outcome_units(self, values: np.ndarray) -> float:
        return outcome_scale(float(values[0]), self.link)

    def at_corr(self, atcorr: np.ndarray) -> np.ndarray:
        return math.sqrt(self.link.variance) * np.sinh(atcorr)

    def to_bound(self) -> tuple[float, ...]:
        return self.upper

    def error_scale(self, values: np.ndarray) -> tuple[float, float, float]:
        return float(values[0]), 1.0, 0.0

    def marginal(self, values: np.ndarray) -> np.ndarray:
        return values

    def coarse(self, tol: float) -> Form:
        return replace(self, tol=max(self.tol, tol))

    def nodes(self, dependence: np.ndarray, device: torch.device) -> MemberNodes:
        size = np.abs(dependence[:, 0])

        def build(steep: int, of: np.ndarray) -> HalfNodes | StepNodes:
            if steep:
                return StepNodes.build(self.tol, self.link, device)
            return HalfNodes.build(float(size[of].max()), self.tol, self.link, device)

        return MemberNodes.build((size > STEEP).astype(int), build, device)

    def sizes(self, dependence: np.ndarray) -> np.ndarray:
        size, link = np.abs(dependence[:, 0]), self.link
        counts = legendre_sizes(
            np.minimum(size, STEEP), self.tol, entire=link.entire, strip=link.strip
        )
        return np.where(size > STEEP, sum(step_counts(self.tol, link)), counts)

    def terms(
        self, a: Tensor, b: Tensor, dependence: Tensor, block: Block, nodes: MemberNodes, order: int
    ) -> RowTerms:
        def kernel(a: Tensor, b: Tensor, loading: Tensor, block: Block, own: Any) -> RowTerms:
            return half_line(a, b, loading, block, own, self.link, order)

        return nodes.terms(kernel, a, b, dependence[:, 0], block)


@dataclass(frozen=True)
class ProbitForm(_Common):
    """Probit outcome with unit error variance and error correlation rho = tanh(athrho).

    The half-line kernel has the outcome error 1 and the loading on top of it; with
    loading = sinh t and a = a* cosh t the total variance is scaled back to one. It is the limit
    sigma -> infinity of the free form on "hard" rows only: a soft row's selection factor
    PHI((2s' - 1) z) is not that of a selection error beyond its threshold. Hard rows are integrated
    over the correlation instead (:mod:`~statsmodels_mnar.kernel.bivariate`), at a fraction of the
    cost, and close to |rho| = 1 by a series; the half line is for those few whose probability is
    too small for the former.

    Examples
    --------
    >>> ProbitForm().names
    ('athrho',)
    """

    tol: float = 1e-10
    kind: ClassVar[Parametrization] = "probit"
    corr_name: ClassVar[str] = "rho"
    link: ClassVar[Link] = PROBIT
    names: ClassVar[tuple[str, ...]] = ("athrho",)
    lower: ClassVar[tuple[float, ...]] = (-_ATHRHO_CORNER,)
    upper: ClassVar[tuple[float, ...]] = (_ATHRHO_CORNER,)
    simulation: ClassVar[None] = None
    shares_nodes: ClassVar[bool] = True

    def dependence(self, values: np.ndarray) -> Dependence:
        rho = math.tanh(values[0])
        return Dependence(math.inf, rho, rho)

    def corr_slope(self, values: np.ndarray) -> np.ndarray:
        return np.ones(1)

    def outcome_units(self, values: np.ndarray) -> float:
        return 1.0

    def at_corr(self, atcorr: np.ndarray) -> np.ndarray:
        return atcorr

    def to_bound(self) -> tuple[float, ...]:
        # Each value is the start of the next, where the kink of the likelihood is narrower.
        return (5.0, 7.0, 9.0, 11.0, 13.0, *self.upper)

    def coarse(self, tol: float) -> Form:
        return replace(self, tol=max(self.tol, tol))

    def error_scale(self, values: np.ndarray) -> tuple[float, float, float]:
        return 0.0, 0.0, 0.0

    def corner(self, values: np.ndarray) -> int:
        return int(np.sign(values[0])) if abs(values[0]) > CORNER else 0

    def nodes(self, dependence: np.ndarray, device: torch.device) -> MemberNodes:
        t = dependence[:, 0]

        def build(corner: int, of: np.ndarray) -> PlackettNodes | None:
            return None if corner else PlackettNodes.build(t[of], self.tol, device)

        return MemberNodes.build((np.abs(t) > CORNER).astype(int), build, device)

    def sizes(self, dependence: np.ndarray) -> np.ndarray:
        t = np.abs(dependence[:, 0])
        return np.where(t > CORNER, 1, plackett_counts(np.minimum(t, CORNER), self.tol))

    def terms(
        self, a: Tensor, b: Tensor, dependence: Tensor, block: Block, nodes: MemberNodes, order: int
    ) -> RowTerms:
        def kernel(a: Tensor, b: Tensor, t: Tensor, block: Block, own: Any) -> RowTerms:
            if block.kind != "hard":
                if own is None:
                    raise ValueError(
                        "soft rows have no probit form: their selection factor is another one"
                    )
                return self._by_half_line(a, b, t, block, own.steepest, order)
            if own is None:
                return near_corner(a, b, t, block.sign, order)
            terms, small = plackett(a, b, t, block.sign, own, order)
            for member, row in _in_parts(small):
                at = block.labels(member, row)
                exact = self._by_half_line(
                    a[member, row][:, None], b[member, row][:, None], t[member], at, own.steepest,
                    order,
                )  # fmt: skip
                terms.value[member, row] = exact.value[:, 0]
                if terms.first is not None and exact.first is not None:
                    terms.first[:, member, row] = exact.first[:, :, 0]
                if terms.second is not None and exact.second is not None:
                    terms.second[:, member, row] = exact.second[:, :, 0]
            return terms

        return nodes.terms(kernel, a, b, dependence[:, 0], block)

    def _by_half_line(
        self, a: Tensor, b: Tensor, athrho: Tensor, block: Block, steepest: float, order: int
    ) -> RowTerms:
        nodes = HalfNodes.build(math.sinh(steepest), self.tol, PROBIT, a.device)
        t = athrho[:, None]
        cosh, sinh = t.cosh(), t.sinh()
        inner = half_line(a * cosh, b, sinh[:, 0], block, nodes, PROBIT, order)
        if inner.first is None:
            return inner
        g_a, g_b, g_l = inner.first
        first = torch.stack([cosh * g_a, g_b, a * sinh * g_a + cosh * g_l])
        if inner.second is None:
            return RowTerms(inner.value, first)
        aa, ab, al, bb, bl, ll = inner.second
        up = a * sinh  # derivative of a cosh t; that of sinh t is cosh t
        second = torch.stack(
            [
                cosh * cosh * aa,
                cosh * ab,
                sinh * g_a + cosh * (up * aa + cosh * al),
                bb,
                up * ab + cosh * bl,
                up * up * aa + cosh * (2.0 * up * al + cosh * ll + a * g_a) + sinh * g_l,
            ]
        )
        return RowTerms(inner.value, first, second)


_ROWS_APART = 2048  # rows that are evaluated one by one at once


def _in_parts(small: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Members and rows at which (B, n) is True, some at a time."""
    members, rows = torch.nonzero(small, as_tuple=True)
    for first in range(0, len(rows), _ROWS_APART):
        yield members[first : first + _ROWS_APART], rows[first : first + _ROWS_APART]


def single_form(link: Link, tol: float = 1e-10) -> LoadingForm | ProbitForm:
    """Return the form of a link that has one dependence parameter, independence at its zero."""
    return ProbitForm(tol) if link == PROBIT else LoadingForm(tol, link)


def unselected(b: Tensor, order: int) -> RowTerms:
    """Rows with s' = 0 under every form: log PHI(-b) and its derivatives in b alone."""
    if order == 0:
        return RowTerms(log_ndtr(-b))
    value, m = log_ndtr_and_mills(-b)
    return RowTerms(value, -m[None], (m * (b - m))[None])


# -- the free form with the latent error correlation as a parameter of its own ---------------------


_MIX_MAX = 6.0  # q between 0.0025 and 0.9975: the faces beyond have forms of their own


@dataclass(frozen=True)
class CorrelationForm(_Common):
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

    link: ClassVar[Link] = LOGIT

    @property
    def simulation(self) -> Simulation | None:
        return self._free.simulation

    def dependence(self, values: np.ndarray) -> Dependence:
        return self._free.dependence(self._free_at(values))

    def atcorr(self, values: np.ndarray) -> float:
        return float(values[1])

    def corr_slope(self, values: np.ndarray) -> np.ndarray:
        return np.array([0.0, 1.0])

    def outcome_units(self, values: np.ndarray) -> float:
        return 1.0

    def natural_units(self, values: np.ndarray) -> float:
        return outcome_scale(math.exp(self._free_at(values)[0]))

    def error_scale(self, values: np.ndarray) -> tuple[float, float, float]:
        raise NotImplementedError("predictions are made in the parameters of the free form")

    def coarse(self, tol: float) -> Form:
        return self

    def _free_at(self, values: np.ndarray) -> np.ndarray:
        return self.free_values(torch.as_tensor(values)[None])[0].numpy()

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
