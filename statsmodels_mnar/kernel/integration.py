"""How the integral over the latent error e ~ N(0, 1) becomes a weighted sum of nodes or draws.

Every draw is a function of (seed, key of the row, number of the draw) alone, so a row gets the same
draws whatever the block size, the order of the rows or the device. In one dimension the designs
differ only in how a row's R points are spread, given one uniform number of that row:

==========  ==========================================================================
random      R independent uniforms
antithetic  R/2 independent uniforms and their complements
halton      the base-2 Halton points, shifted modulo 1 by the row's uniform
sobol       scrambled Sobol points, digitally shifted (xor) by the row's uniform
mlhs        modified Latin hypercube (Hess, Train and Polak 2006): (r + the row's uniform)/R
==========  ==========================================================================

The trapezoidal rule on the whole line converges geometrically for this integrand, and its error is
known in advance (Trefethen and Weideman 2014). Shifted by iy into the complex plane the integrand
L(a + sigma e) PHI(b cosh t + e sinh t) phi(e) grows at most like exp(cosh(t)^2 y^2 / 2), and the
logistic function has its first pole at y = pi/sigma. With step h the relative error is therefore

    exp(-2 pi y/h + cosh(t)^2 y^2/2)   for the best y <= pi/sigma,

which :func:`trapezoid_step` solves for h.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
import torch
from scipy.special import ndtri, roots_hermitenorm, roots_legendre
from scipy.stats import qmc
from torch import Tensor


class Workspace:
    """Wide arrays of one evaluation.

    Fresh arrays of a few megabytes go back to the system after every block, and faulting their
    pages in again costs as much as the arithmetic on them.
    """

    __slots__ = ("_flat",)

    def __init__(self) -> None:
        self._flat: Tensor | None = None

    def stacked(self, count: int, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """``count`` arrays of this shape with arbitrary content, valid until the next call.

        Examples
        --------
        >>> import torch
        >>> Workspace().stacked(2, (3, 4), torch.zeros(1)).shape
        torch.Size([2, 3, 4])
        """
        size = count * math.prod(shape)
        if self._flat is None or self._flat.numel() < size:
            self._flat = like.new_empty(size)
        return self._flat[:size].view(count, *shape)

    def arrays(self, count: int, shape: tuple[int, ...], like: Tensor) -> tuple[Tensor, ...]:
        """:meth:`stacked`, as a tuple."""
        return self.stacked(count, shape, like).unbind(0)


# -- standard normal draws that belong to a row, not to a position in a stream ---------------------


DrawKind = Literal["random", "antithetic", "halton", "sobol", "mlhs"]
DRAW_KINDS: tuple[str, ...] = get_args(DrawKind)

_BITS = 52  # of a point; one fewer than float64 holds, so that the half step added below is exact
_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15, the increment of SplitMix64, as int64


def _shift_right(x: Tensor, k: int) -> Tensor:
    """Logical right shift of int64 (torch's is arithmetic)."""
    return (x >> k) & ((1 << (64 - k)) - 1)


def _mix(x: Tensor) -> Tensor:
    """SplitMix64's finaliser (Steele, Lea and Flood 2014): a bijection of 64 bits."""
    x = (x ^ _shift_right(x, 30)) * -4658895280553007687
    x = (x ^ _shift_right(x, 27)) * -7723592293110705685
    return x ^ _shift_right(x, 31)


def _row_state(keys: Tensor, seed: int) -> Tensor:
    """Start of each row's own stream, (n,)."""
    start = int(np.random.SeedSequence(seed).generate_state(1, np.uint64).astype(np.int64)[0])
    return _mix(_mix(keys * _GOLDEN + start))


def _bits(state: Tensor, number: Tensor) -> Tensor:
    """Draw ``number`` of the streams, as integers of ``_BITS`` bits."""
    return _shift_right(_mix(state + (number + 1) * _GOLDEN), 64 - _BITS)


def _to_unit(bits: Tensor) -> Tensor:
    """Integers of ``_BITS`` bits -> the open unit interval."""
    return (bits.to(torch.float64) + 0.5) * 2.0**-_BITS


@lru_cache(maxsize=32)
def _base_bits(kind: str, n_draws: int, seed: int) -> np.ndarray:
    """The R points of a low-discrepancy sequence, as integers of ``_BITS`` bits."""
    if kind == "halton":
        unit = qmc.Halton(d=1, scramble=False).random(n_draws)[:, 0]
    else:
        power = max(int(np.ceil(np.log2(n_draws))), 0)  # a power of two keeps Sobol's balance
        sobol = qmc.Sobol(d=1, scramble=True, rng=np.random.default_rng(seed))
        unit = sobol.random_base2(power)[:n_draws, 0]
    return np.minimum(np.floor(unit * 2.0**_BITS), 2.0**_BITS - 1).astype(np.int64)


def uniform_points(keys: Tensor, n_draws: int, kind: DrawKind, seed: int) -> Tensor:
    """The points of each row in the open unit interval, (n, R), on the device of ``keys``.

    Parameters
    ----------
    keys : Tensor
        (n,) int64, the identity of each row.
    n_draws : int
        R; even for "antithetic".
    kind : {"random", "antithetic", "halton", "sobol", "mlhs"}
    seed : int

    Examples
    --------
    >>> import torch
    >>> points = uniform_points(torch.tensor([7, 8]), n_draws=4, kind="mlhs", seed=0)
    >>> (points * 4).floor().tolist()  # one point in each quarter
    [[0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0]]
    """
    state = _row_state(keys, seed)[:, None]
    if kind in ("random", "antithetic"):
        n_free = n_draws if kind == "random" else n_draws // 2
        points = _to_unit(_bits(state, torch.arange(n_free, device=keys.device)))
        return points if kind == "random" else torch.cat([points, 1.0 - points], dim=1)
    shift = _bits(state, torch.zeros(1, dtype=torch.int64, device=keys.device))
    if kind == "mlhs":
        number = torch.arange(n_draws, dtype=torch.float64, device=keys.device)
        # The last point may round up to 1, whose normal quantile is infinite.
        return ((number + _to_unit(shift)) / n_draws).clamp_(max=1.0 - 2.0**-53)
    base = torch.as_tensor(_base_bits(kind, n_draws, seed), device=keys.device)
    if kind == "halton":
        return _to_unit((base + shift) & ((1 << _BITS) - 1))
    return _to_unit(base ^ shift)


def normal_draws(keys: Tensor, n_draws: int, kind: DrawKind, seed: int) -> Tensor:
    """Standard normal draws of each row, (n, R)."""
    return torch.special.ndtri(uniform_points(keys, n_draws, kind, seed))


# -- how the integral over the latent error e ~ N(0, 1) becomes a weighted sum of nodes ------------


Rule = Literal["trapezoid", "gauss-hermite"]

# Beyond this a row's likelihood is re-evaluated around its own mode, in log space.
_SMALLEST_ORDINARY = 1e-8
_MAX_NODES = 200_000
_SAFETY = math.log(100.0)  # the bound above leaves out a constant of order ten
_TIGHTEST = 1e-15


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes and weights of the sum that replaces the integral.

    Shared nodes belong to a member of the batch and serve all its rows; draws belong to a row, and
    serve all members that share it.
    """

    e: Tensor  # (B, K, 1) shared by the rows, or (1 or B, K, n) each row's own draws
    weight: Tensor  # (B, K, 1), or (1, 1, 1): 1/R
    powers: Tensor | None  # (B, 3, K) weight * [1, e, e^2], of shared nodes only
    floor: float  # a likelihood below this needs the log-space path
    recenter: bool  # that path may move the nodes to the row's mode
    work: Workspace = field(default_factory=Workspace, compare=False, repr=False)

    @property
    def shared(self) -> bool:
        return self.powers is not None

    @property
    def count(self) -> int:
        return self.e.shape[1]


def is_integer(value: Any) -> bool:
    """Is it a whole number, which True is not?"""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Is it a real number, NaN and infinity among them?"""
    return isinstance(value, float | np.floating) or is_integer(value)


def half_width(tol: float) -> float:
    """|e| beyond which the normal density's mass is below ``tol`` of any ordinary row's."""
    return float(-ndtri(tol * _SMALLEST_ORDINARY))


def trapezoid_step(sigma: np.ndarray, athrho: np.ndarray, tol: float) -> np.ndarray:
    """Step h of the trapezoidal rule whose relative error is below ``tol``."""
    need = math.log(1.0 / tol) + _SAFETY
    cosh = np.cosh(athrho)
    y = np.minimum(math.sqrt(2.0 * need) / cosh, math.pi / np.maximum(sigma, 1e-8))
    return 2.0 * math.pi * y / (need + 0.5 * (cosh * y) ** 2)


@dataclass(frozen=True, slots=True)
class Quadrature:
    """Deterministic integration.

    Parameters
    ----------
    rule : {"trapezoid", "gauss-hermite"}
        "trapezoid" chooses its step from sigma, rho and ``tol``. "gauss-hermite" has ``n_nodes``
        fixed nodes; it is exact for moderate dependence and wrong near \\|rho\\| = 1, where ``fit``
        takes "trapezoid" in its place.
    n_nodes : int, optional
        Number of nodes. Trapezoid: by default as many as ``tol`` asks for. Gauss-Hermite: 32.
    tol : float
        Relative error allowed in one row's likelihood.

    Examples
    --------
    >>> Quadrature(tol=1e-12)
    Quadrature(rule='trapezoid', n_nodes=None, tol=1e-12)
    """

    rule: Rule = "trapezoid"
    n_nodes: int | None = None
    tol: float = 1e-10

    def __post_init__(self) -> None:
        if self.rule not in get_args(Rule):
            raise ValueError(f"rule={self.rule!r} is unknown; use one of {get_args(Rule)}")
        if self.n_nodes is not None and not (is_integer(self.n_nodes) and self.n_nodes >= 2):
            raise ValueError(f"n_nodes={self.n_nodes!r} must be an integer of at least 2")
        if not (is_number(self.tol) and _TIGHTEST <= self.tol <= 1e-2):
            raise ValueError(f"tol={self.tol!r} must lie between {_TIGHTEST:g} and 1e-2")

    def __str__(self) -> str:
        if self.controlled() == self:
            return f"trapezoid (tol {self.tol:g})"
        return f"{self.rule} ({self.n_nodes or 32} nodes)"

    def controlled(self) -> Quadrature:
        """The rule that chooses its step, whose error is known beforehand."""
        given = self.rule == "gauss-hermite" or self.n_nodes is not None
        return Quadrature(tol=self.tol) if given else self

    def finer(self) -> Quadrature:
        """A rule whose error is negligible beside this one's."""
        known = self.controlled()
        return known if known != self else replace(self, tol=max(1e-3 * self.tol, _TIGHTEST))

    def _reach(self, sigma: np.ndarray, athrho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Step of each member's trapezoidal rule, and its nodes on either side of zero."""
        width = half_width(self.tol)
        if self.n_nodes is None:
            step = trapezoid_step(sigma, athrho, self.tol)
        else:
            step = np.full(len(sigma), 2.0 * width / (self.n_nodes - 1))
        return step, np.ceil(width / step)

    def sizes(self, sigma: np.ndarray, athrho: np.ndarray) -> np.ndarray:
        """Nodes that each pair of ``sigma`` and ``athrho`` needs, (B,), up to a power of two."""
        if self.rule == "gauss-hermite" or self.n_nodes is not None:
            return np.full(len(sigma), self.n_nodes or 32)
        count = 2.0 * self._reach(sigma, athrho)[1] + 1.0
        return 2 ** np.ceil(np.log2(count)).astype(int)

    def nodes(
        self,
        sigma: Sequence[float] | np.ndarray,
        athrho: Sequence[float] | np.ndarray,
        device: torch.device,
    ) -> Nodes:
        """Nodes on ``device`` for each ``sigma`` and ``athrho``, padded with zero weights."""
        if self.rule == "gauss-hermite":
            x, w = roots_hermitenorm(self.n_nodes or 32)
            e, weight = x[None], w[None] / w.sum()
            e, weight = (np.repeat(v, len(sigma), axis=0) for v in (e, weight))
            return _shared(e, weight, 1e-280, False, device)
        step, reach = self._reach(np.asarray(sigma), np.asarray(athrho))
        # An even n_nodes straddles zero; counted from the middle either way.
        count = int(2 * reach.max() + 1) if self.n_nodes is None else self.n_nodes
        if count > _MAX_NODES:
            raise ValueError(
                f"sigma={np.max(sigma):.3g} and athrho={np.max(np.abs(athrho)):.3g} need {count:,} "
                "nodes for the integral; this close to rho = +-1 or sigma = infinity fit the form "
                "of that boundary, normalization='loading' or 'probit'"
            )
        k = np.arange(count) - 0.5 * (count - 1)
        e = k * step[:, None]
        weight = step[:, None] * np.exp(-0.5 * e * e) / math.sqrt(2.0 * math.pi)
        weight = np.where(np.abs(k) <= reach[:, None], weight, 0.0)
        return _shared(e, weight, _SMALLEST_ORDINARY, True, device)


def _shared(
    e: np.ndarray, weight: np.ndarray, floor: float, recenter: bool, device: torch.device
) -> Nodes:
    e_t = torch.as_tensor(e, dtype=torch.float64, device=device)
    w_t = torch.as_tensor(weight, dtype=torch.float64, device=device)
    powers = torch.stack([w_t, w_t * e_t, w_t * e_t * e_t], dim=1)
    return Nodes(e_t[..., None], w_t[..., None], powers, floor, recenter)


@dataclass(frozen=True, slots=True)
class Simulation:
    """Integration by R draws for each row, the paper's way.

    Parameters
    ----------
    n_draws : int
        R. The paper uses 200.
    kind : {"random", "antithetic", "halton", "sobol", "mlhs"}
        How the draws of a row are spread; see :mod:`statsmodels_mnar.kernel.integration`.
    rng : int or numpy.random.Generator
        Seed of the draws; a generator is asked for one integer.
    redraw : bool
        New draws at each step of the optimiser, as the paper's code does ("sgd" only).

    Examples
    --------
    >>> Simulation(n_draws=100, kind="sobol").n_draws
    100
    """

    n_draws: int = 200
    kind: DrawKind = "halton"
    rng: int | np.random.Generator = 0
    redraw: bool = False

    def __post_init__(self) -> None:
        if self.kind not in DRAW_KINDS:
            raise ValueError(f"kind={self.kind!r} is unknown; use one of {DRAW_KINDS}")
        if not (is_integer(self.n_draws) and self.n_draws >= 1):
            raise ValueError(f"n_draws={self.n_draws!r} must be a positive integer")
        if self.kind == "antithetic" and self.n_draws % 2:
            raise ValueError(f"n_draws={self.n_draws} must be even for antithetic draws")
        if isinstance(self.rng, np.random.Generator):
            object.__setattr__(self, "rng", int(self.rng.integers(2**31)))
        elif not (is_integer(self.rng) and self.rng >= 0):
            raise ValueError(f"rng={self.rng!r} must be a nonnegative integer or a numpy Generator")
        if not isinstance(self.redraw, bool):
            raise ValueError(f"redraw={self.redraw!r} must be True or False")

    def __str__(self) -> str:
        return f"{self.n_draws} {self.kind} draws"

    def controlled(self) -> Quadrature:
        """The rule whose error is known beforehand."""
        return Quadrature()

    def finer(self) -> Quadrature:
        """A rule whose error is negligible beside that of any draws."""
        return Quadrature()

    @property
    def seed(self) -> int:
        """``rng`` as the integer it has become."""
        return int(self.rng)  # type: ignore[arg-type]  # __post_init__ replaces generators

    def again(self, step: int) -> Simulation:
        """Return these settings with the draws of step ``step`` of an optimiser that redraws."""
        state = np.random.SeedSequence([self.seed, step]).generate_state(1)
        return replace(self, rng=int(state[0]))

    def nodes(self, keys: Tensor) -> Nodes:
        """Draws of the rows with these ``keys``, (n,) or (B, n)."""
        e = normal_draws(keys.reshape(-1), self.n_draws, self.kind, self.seed)
        e = e.view(-1, keys.shape[-1], self.n_draws).mT.contiguous()
        weight = e.new_full((1, 1, 1), 1.0 / self.n_draws)
        return Nodes(e, weight, None, 1e-280, False)


Integration = Quadrature | Simulation


def as_integration(integration: str | Integration) -> Integration:
    """Accept the names "quadrature" and "simulation" beside the objects.

    Examples
    --------
    >>> as_integration("simulation")
    Simulation(n_draws=200, kind='halton', rng=0, redraw=False)
    """
    if isinstance(integration, Quadrature | Simulation):
        return integration
    if integration == "quadrature":
        return Quadrature()
    if integration == "simulation":
        return Simulation()
    raise ValueError(
        f"integration={integration!r} is unknown; use 'quadrature', 'simulation', "
        "Quadrature(...) or Simulation(...)"
    )


def node_sums(product: Tensor, nodes: Nodes, n_powers: int) -> Tensor:
    """Sums over the nodes of ``product`` times e^j, (n_powers, B, n); ``product`` is (B, K, n)."""
    if nodes.powers is not None:
        return torch.matmul(nodes.powers[:, :n_powers], product).movedim(1, 0)
    sums = [product.sum(1)]
    for _ in range(n_powers - 1):
        product = product * nodes.e
        sums.append(product.sum(1))
    return torch.stack(sums) * nodes.weight[..., 0]


_SHARES = 16  # lengths of an interval that are told apart


def legendre_count(
    loading: float, tol: float, *, entire: bool, strip: float = math.pi, share: float = 1.0
) -> int:
    """Gauss-Legendre nodes on the half line (cut at :func:`half_width`) for an error ``tol``.

    On an ellipse around the interval with parameter r the integrand grows like exp(y^2/2) for a
    link that is bounded for y < strip/loading (``entire=False``) and exp((1 + loading^2) y^2/2) for
    a probit outcome; the rule's error falls like r^(-2n). A half line that begins beyond zero is a
    short interval, at whose beginning the density is steep: there the ellipse reaches beyond the
    interval to where it is larger.

    Parameters
    ----------
    share : float
        Length of the longest interval beside that of the whole line. Shorter ones need fewer nodes.
    """
    largest, counts = _legendre_table(tol, entire, strip, math.ceil(_SHARES * min(share, 1.0)))
    place = int(np.searchsorted(largest, abs(loading)))
    _check_loading(place, counts, loading)
    return int(4 * math.ceil(counts[place] / 4))


def legendre_sizes(
    loadings: np.ndarray, tol: float, *, entire: bool, strip: float = math.pi
) -> np.ndarray:
    """Return about the nodes that each loading needs on the whole line, (B,).

    Four sizes to an octave: members of a batch whose loadings are close have the same rule.
    """
    largest, counts = _legendre_table(tol, entire, strip, _SHARES)
    place = np.searchsorted(largest, np.abs(loadings))
    _check_loading(place.max(initial=0), counts, np.abs(loadings).max(initial=0.0))
    step = 2.0 ** (np.floor(np.log2(counts[place])) - 2.0)
    return (step * np.ceil(counts[place] / step)).astype(int)


def _check_loading(place: int, counts: np.ndarray, loading: float) -> None:
    if place == len(counts):
        raise ValueError(f"loadings up to {abs(loading):.3g} need too many nodes")


@lru_cache(maxsize=128)
def _legendre_table(
    tol: float, entire: bool, strip: float, share: int
) -> tuple[np.ndarray, np.ndarray]:
    """Loadings in steps of 2%, and the nodes that serve all loadings up to each."""
    loadings = np.geomspace(2.0**-6, 2.0**10, 560)
    need = math.log(1.0 / tol) + _SAFETY
    r = 1.0 + np.geomspace(1e-4, 4.0, 300)
    width = half_width(tol)
    length = 2.0 * width * share / _SHARES
    start = max(0.0, (width**2 - length**2) / (2.0 * length))  # of the interval
    beyond = 0.25 * length * (r + 1.0 / r - 2.0)
    y = 0.25 * length * (r - 1.0 / r)
    growth = start * beyond + 0.5 * y * y * (1.0 + loadings[:, None] ** 2 if entire else 1.0)
    if not entire:
        growth = np.where(y < strip / loadings[:, None], growth, np.inf)
    return loadings, np.min((need + growth) / (2.0 * np.log(r)), axis=1)


@lru_cache(maxsize=64)
def legendre_rule(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes on [0, 1], (K,), and weight * [1, x, x^2], (3, K)."""
    x, w = roots_legendre(count)
    x = 0.5 * (x + 1.0)
    return x, 0.5 * w * x ** np.arange(3)[:, None]


@lru_cache(maxsize=64)
def legendre_rule_on(count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """:func:`legendre_rule` as tensors, which nobody writes to."""
    x, powers = legendre_rule(count)
    return torch.as_tensor(x, device=device), torch.as_tensor(powers, device=device)


_HALVINGS = 24  # of an interval: a mode is where nodes are spread from


def falling_root(slope: Callable[[Tensor], Tensor], like: Tensor) -> Tensor:
    """Return the roots of h(x) - x, elementwise, where h decreases: between 0 and h(0).

    Intervals are halved on the scale of asinh(x), on which one is short whose h(0) is exponential.
    """
    far = torch.asinh(slope(torch.zeros_like(like)))
    low, high = torch.clamp(far, max=0.0), torch.clamp(far, min=0.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        rising = slope(torch.sinh(middle)) > 0.0
        low, high = torch.where(rising, middle, low), torch.where(rising, high, middle)
    return torch.sinh(0.5 * (low + high))
