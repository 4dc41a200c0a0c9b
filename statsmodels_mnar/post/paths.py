"""Paths through a selection model along which one quantity is held and the rest is refitted.

A path is run through by one coordinate u: a coefficient or the loading itself, log sigma, atanh of
rho or of the error correlation. At each u the model may be a union of forms (the interior of the
free model and its faces); each is a branch that holds some parameters at functions of u, and the
best branch counts. u = -inf and inf stand for the ends rho = -1, 1 and sigma = 0, infinity.

A `Curve` holds the fits along a path. All values of a round are fitted as one batch, each from the
nearest value already fitted, moved along the tangent of the path.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernel.forms import (
    CorrelationForm,
    Dependence,
    Form,
    FreeForm,
    LoadingForm,
    ProbitForm,
    outcome_scale,
)
from ..kernel.integration import Integration
from ..kernel.links import LOGIT, Link
from ..optimize.maximize import maximize_batch
from ..optimize.objective import Objective
from ..optimize.solution import Solution, Status, comparable, ended_well
from ..types import Floats

Held = dict[int, Callable[[float], float]]

EVERYWHERE = (-math.inf, math.inf)
LNSIGMA = (math.log(0.05), math.log(6.0))
ATHRHO = math.atanh(0.99)
REACH = 3.5  # standard errors either side of the estimate that a curve shows

_INF = math.inf
_ANY_LNSIGMA, _ANY_ATHRHO = zip(FreeForm.lower, FreeForm.upper, strict=True)  # if held
_ATCORR = (-3.2, 3.2)  # of atanh(error_corr): beyond, the likelihood is that of the corner
_FINITE = (-sys.float_info.max, sys.float_info.max)
_CHUNK = 8  # members of a batch: neighbours, so that they need about as many nodes


@dataclass(frozen=True)
class Inner(FreeForm):
    """The free form within bounds at which its nodes are few; faces close the rest."""

    lower: ClassVar[tuple[float, ...]] = (LNSIGMA[0], -ATHRHO)
    upper: ClassVar[tuple[float, ...]] = (LNSIGMA[1], ATHRHO)

    def wider(self) -> Form:
        return FreeForm(self.integration)


@dataclass(frozen=True)
class InnerCorrelation(CorrelationForm):
    """The interior of the free form in the coordinates (mix, atcorr)."""

    lower: ClassVar[tuple[float, ...]] = (-3.0, CorrelationForm.lower[1])
    upper: ClassVar[tuple[float, ...]] = (2.0, CorrelationForm.upper[1])

    def wider(self) -> Form:
        return CorrelationForm(self.integration)


@dataclass(frozen=True)
class Positive(LoadingForm):
    """The loading form on the face rho = 1."""

    lower: ClassVar[tuple[float, ...]] = (0.0,)


@dataclass(frozen=True)
class Negative(LoadingForm):
    """The loading form on the face rho = -1."""

    upper: ClassVar[tuple[float, ...]] = (0.0,)


@dataclass(frozen=True)
class Moderate(LoadingForm):
    """The loading form within bounds at which its nodes are few."""

    lower: ClassVar[tuple[float, ...]] = (-10.0,)
    upper: ClassVar[tuple[float, ...]] = (10.0,)


@dataclass(frozen=True)
class Branch:
    """One form of the model along a path."""

    objective: Objective
    start: Floats  # (P,) near the estimate
    held: Held  # position of a parameter -> its value at u
    domain: tuple[float, float] = EVERYWHERE  # of u, closed

    @property
    def name(self) -> str:
        return self.objective.form.kind

    @property
    def free(self) -> NDArray[np.bool_]:
        """(P,) parameters that are refitted."""
        mask = np.ones(len(self.start), dtype=bool)
        mask[list(self.held)] = False
        return mask

    def exists(self, u: Floats) -> NDArray[np.bool_]:
        return (u >= self.domain[0]) & (u <= self.domain[1])

    def at_bound(self, params: Floats) -> bool:
        """Whether a refitted dependence parameter lies on the form's bound."""
        form, n_coef = self.objective.form, self.objective.n_coef
        values = params[n_coef:]
        on = (values <= np.array(form.lower)) | (values >= np.array(form.upper))
        return bool((on & self.free[n_coef:]).any())

    def put(self, params: Floats, u: float) -> Floats:
        """``params`` with the held ones at their values."""
        params = params.copy()
        for position, value in self.held.items():
            params[position] = value(u)
        return params

    def natural(self, params: Floats) -> tuple[Floats, Dependence]:
        """Coefficients in the form's own units, and sigma, rho and the error correlation."""
        n_coef = self.objective.n_coef
        coef = params[:n_coef].copy()
        coef[: self.objective.p] *= self.units(params)
        return coef, self.objective.form.dependence(params[n_coef:])

    def units(self, params: Floats) -> float:
        """What outcome coefficients are multiplied by to be in the form's own units."""
        return self.objective.form.natural_units(params[self.objective.n_coef :])


def wider(branch: Branch) -> Branch | None:
    """The branch with the interior's full bounds, where it had narrow ones."""
    whole = branch.objective.form.wider()
    return None if whole is None else replace(branch, objective=branch.objective.with_form(whole))


class Scale(NamedTuple):
    """The map between the coordinate u and the quantity that a user names."""

    value: Callable[[float], float]
    inverse: Callable[[float], float]


@dataclass(frozen=True)
class Path:
    """A quantity and the branches along which it is held."""

    name: str
    branches: tuple[Branch, ...]
    scale: Scale
    estimate: float  # u at the estimate; infinite on a face
    range: tuple[float, float] = (-_INF, _INF)  # of u in which curves are drawn
    ends: tuple[float, ...] = ()  # of -inf and inf, those where some branch exists
    closes_at_infinity: bool = False  # sigma grows with u, without bound

    def value(self, u: float) -> float:
        return self.scale.value(u)

    def inverse(self, value: float) -> float:
        return self.scale.inverse(value)

    @property
    def limits(self) -> tuple[float, float]:
        """Between which the quantity lies, whatever the data."""
        return self.value(-_INF), self.value(_INF)


@dataclass(frozen=True)
class Closed:
    """A model with the faces that close it, and the estimates in it.

    ``sigma`` and ``rho`` are the values that the normalization fixes, None where it does not.
    """

    kind: str  # "free", "loading" or "probit"
    sigma: float | None
    rho: float | None
    objective: Objective  # of the model's rows, under any form
    integration: Integration
    names: tuple[str, ...]  # (p + k,) of the coefficients
    coef: Floats  # (p + k,)
    errors: Floats  # (p + k,) their standard errors were the dependence known
    units: str  # "logit" or "probit", of the outcome coefficients
    at: Dependence  # the estimate
    link: Link = LOGIT  # of the outcome given its errors

    def path(self, param: str) -> Path:
        """Return the path along which ``param`` is held."""
        if param in self.names:
            return self._coefficient(self.names.index(param))
        fixed = self.sigma is not None or self.rho is not None
        if self.kind == "loading" and param in ("loading", "error_corr") and not fixed:
            loading = math.copysign(self.at.sigma, self.at.rho)
            if param == "loading":
                branch = self._loading({-1: _same})
                return Path(param, (branch,), _IDENTITY, loading, (-50.0, 50.0))
            branch = self._loading({-1: self._loading_of})
            return Path(param, (branch,), _TANH, _atanh(self.at.error_corr), _ATCORR)
        if self.kind == "probit" and param in ("rho", "athrho", "error_corr") and not fixed:
            scale = _IDENTITY if param == "athrho" else _TANH
            return Path(param, (self._probit({-1: _same}),), scale, _atanh(self.at.rho), _ATCORR)
        if self.kind == "free":
            found = self._free_path(param)
            if found is not None:
                return found
        raise ValueError(
            f"param={param!r} is not estimated by this model; use one of "
            f"{[*self.dependence_names(), *self.names]}"
        )

    def dependence_names(self) -> list[str]:
        """Quantities of the dependence that have a path."""
        if self.sigma is not None and self.rho is not None:
            return []
        if self.kind == "loading":
            return ["loading", "error_corr"]
        if self.kind == "probit" or self.sigma is not None:
            return ["rho", "athrho", "error_corr"]
        sigma = ["sigma", "lnsigma"]
        if self.rho != 0.0:  # which leaves no error correlation, whatever sigma
            sigma.append("error_corr")
        return sigma if self.rho is not None else ["rho", "athrho", *sigma]

    # -- quantities of the free form ---------------------------------------------------------------

    def _free_path(self, param: str) -> Path | None:
        both = self.sigma is None and self.rho is None
        if param == "error_corr" and both:
            branches = (
                self._correlation({-1: _same}),
                self._loading({-1: self._loading_of}),
                self._probit({-1: _same}),
            )
            return Path(param, branches, _TANH, _atanh(self.at.error_corr), (-3.8, 3.8))
        by_rho = self.rho is None and (
            param in ("rho", "athrho") or (param == "error_corr" and self.sigma is not None)
        )
        by_sigma = self.sigma is None and (
            param in ("sigma", "lnsigma") or (param == "error_corr" and bool(self.rho))
        )
        if by_rho:
            return self._rho_path(param)
        return self._sigma_path(param) if by_sigma else None

    def _rho_path(self, param: str) -> Path:
        scale = _IDENTITY if param == "athrho" else _TANH
        inside = (-ATHRHO, ATHRHO)
        if self.sigma is not None:
            lnsigma, sigma = math.log(self.sigma), self.sigma
            branches: tuple[Branch, ...] = (
                self._interior({-2: lambda _: lnsigma, -1: _same}, _ANY_ATHRHO),
                self._loading({-1: lambda u: math.copysign(sigma, u)}, (_INF, _INF)),
                self._loading({-1: lambda u: math.copysign(sigma, u)}, (-_INF, -_INF)),
            )
            if param == "error_corr":
                share = sigma / math.sqrt(sigma**2 + LOGIT.variance)
                scale = Scale(lambda u: share * math.tanh(u), lambda v: _atanh(v / share))
        else:
            branches = (
                self._interior({-1: _same}, _ANY_ATHRHO),
                self._probit({-1: _same}, _ANY_ATHRHO),
                self._loading({-1: lambda _: 0.0}),  # sigma = 0, whatever rho
                self._loading({}, (_INF, _INF), Positive(self._tol)),
                self._loading({}, (-_INF, -_INF), Negative(self._tol)),
            )
        return Path(param, branches, scale, _atanh(self.at.rho), inside, (-_INF, _INF))

    def _sigma_path(self, param: str) -> Path:
        scale = _IDENTITY if param == "lnsigma" else Scale(_exp, _log)
        if self.rho is not None:
            athrho, rho = math.atanh(self.rho), self.rho
            branches: tuple[Branch, ...] = (
                self._interior({-2: _same, -1: lambda _: athrho}, _ANY_LNSIGMA),
                self._loading({-1: lambda _: 0.0}, (-_INF, -_INF)),
                self._probit({-1: lambda _: athrho}, (_INF, _INF)),
            )
            if param == "error_corr":
                scale = Scale(
                    lambda u: rho / math.sqrt(1.0 + LOGIT.variance * _exp(-2.0 * u)) + 0.0,
                    lambda v: _lnsigma_of(v / rho),
                )
        else:
            branches = (
                self._interior({-2: _same}, _ANY_LNSIGMA),
                self._loading({-1: _exp}, (-_INF, _ANY_LNSIGMA[1])),
                self._loading({-1: lambda u: -_exp(u)}, (-_INF, _ANY_LNSIGMA[1])),
                self._probit({}, (_INF, _INF)),
            )
        return Path(param, branches, scale, _log(self.at.sigma), LNSIGMA, (-_INF, _INF))

    def _coefficient(self, j: int) -> Path:
        hold: Held = {j: _same}
        name, at = self.names[j], float(self.coef[j])
        if self.kind == "loading":
            branches = [self._loading(hold | self._fixed_loading())]
        elif self.kind == "probit" or (self.units == "probit" and j < self.objective.p):
            branches = [self._probit(hold | self._fixed_athrho())]
        elif j < self.objective.p:
            branches = self._logit_branches(hold)
            if self.sigma is None:
                # Outcome coefficients grow with sigma, so the probit face lies at infinity: with
                # any coefficient of the same sign, and with zero at most of the other.
                same = math.copysign(_INF, at)
                fixed = self._fixed_athrho()
                branches.append(self._probit(fixed, (same, same)))
                none: Held = {j: lambda _: 0.0}
                branches.append(self._probit(none | fixed, (-same, -same)))
                return Path(name, tuple(branches), _IDENTITY, at, self._reach(j), EVERYWHERE, True)
        elif self.sigma is None and self.rho is None:
            branches = [self._correlation(hold), self._loading(hold), self._probit(hold)]
        else:
            branches = self._logit_branches(hold)
            if self.sigma is None:
                branches.append(self._probit(hold | self._fixed_athrho()))
        return Path(name, tuple(branches), _IDENTITY, at)

    def _reach(self, j: int) -> tuple[float, float]:
        """Outcome coefficients within ten errors of the estimate at some sigma that is searched."""
        sigmas = (math.exp(LNSIGMA[0]), max(math.exp(LNSIGMA[1]), 1.5 * self.at.sigma))
        scales = [self._scale(sigma) / self._scale(self.at.sigma) for sigma in sigmas]
        ends = [self.coef[j] + sign * 10.0 * self.errors[j] for sign in (-1, 1)]
        corners = [scale * end for scale in scales for end in ends]
        return min(corners), max(corners)

    def _logit_branches(self, hold: Held) -> list[Branch]:
        held = dict(hold)
        if self.sigma is not None:
            lnsigma = math.log(self.sigma)
            held[-2] = lambda _: lnsigma
        if self.rho is not None:
            athrho = math.atanh(self.rho)
            held[-1] = lambda _: athrho
        found = [self._interior(held, _FINITE)]
        if self.rho is not None:
            found.append(self._loading(hold | {-1: lambda _: 0.0}, _FINITE))
        elif self.sigma is None:
            found.append(self._loading(hold, _FINITE, Moderate(self._tol)))
        else:
            sigma = self.sigma
            found.append(self._loading(hold | {-1: lambda _: sigma}, _FINITE))
            found.append(self._loading(hold | {-1: lambda _: -sigma}, _FINITE))
        return found

    def _fixed_loading(self) -> Held:
        if self.sigma is None:
            return {}
        loading = math.copysign(self.sigma, self.rho or 0.0)
        return {-1: lambda _: loading}

    def _fixed_athrho(self) -> Held:
        if self.rho is None:
            return {}
        athrho = math.atanh(self.rho)
        return {-1: lambda _: athrho}

    # -- branches ----------------------------------------------------------------------------------

    @property
    def _tol(self) -> float:
        return getattr(self.integration, "tol", LoadingForm().tol)

    def coef_at(self, sigma: float) -> Floats:
        """(p + k,) coefficients in the units of another sigma, infinite for a probit outcome."""
        coef, p = self.coef.copy(), self.objective.p
        own = math.sqrt(self.link.variance)
        standard = own if self.units == "probit" else 1.0 / self._scale(self.at.sigma)
        coef[:p] *= standard * (1.0 / own if math.isinf(sigma) else self._scale(sigma))
        return coef

    def _scale(self, sigma: float) -> float:
        return outcome_scale(sigma, self.link)

    def _loading_of(self, u: float) -> float:
        """Return the loading whose error correlation is tanh(u)."""
        return math.sqrt(self.link.variance) * math.sinh(u)

    def _branch(self, form: Form, start: Floats, held: Held, domain: tuple[float, float]) -> Branch:
        positions = {len(start) + j if j < 0 else j: value for j, value in held.items()}
        return Branch(self.objective.with_form(form), start, positions, domain)

    def _interior(self, held: Held, domain: tuple[float, float] = EVERYWHERE) -> Branch:
        sigma = float(np.clip(self.at.sigma, 0.3, 3.0))
        athrho = float(np.clip(_atanh(self.at.rho), -1.5, 1.5))
        start = np.append(self.coef_at(sigma), [math.log(sigma), athrho])
        beyond = math.exp(LNSIGMA[1]) <= self.at.sigma < _INF
        form = FreeForm(self.integration) if beyond else Inner(self.integration)
        return self._branch(form, start, held, domain)

    def _loading(
        self,
        held: Held,
        domain: tuple[float, float] = EVERYWHERE,
        form: LoadingForm | None = None,
    ) -> Branch:
        loading = self._loading_of(float(np.clip(_atanh(self.at.error_corr), -1.0, 1.0)))
        start = np.append(self.coef_at(abs(loading)), loading)
        return self._branch(form or LoadingForm(self._tol, self.link), start, held, domain)

    def _probit(self, held: Held, domain: tuple[float, float] = EVERYWHERE) -> Branch:
        athrho = float(np.clip(_atanh(self.at.error_corr), -1.5, 1.5))
        start = np.append(self.coef_at(_INF), athrho)
        return self._branch(ProbitForm(self._tol), start, held, domain)

    def _correlation(self, held: Held) -> Branch:
        start = np.append(self.coef_at(0.0), [0.0, _atanh(self.at.error_corr)])
        return self._branch(InnerCorrelation(self.integration), start, held, EVERYWHERE)


def _same(u: float) -> float:
    return u


def _lnsigma_of(share: float) -> float:
    """log sigma at which the error correlation is this share of rho; 0 and 1 are its limits."""
    if share <= 0.0:
        return -_INF
    return _INF if share >= 1.0 else -0.5 * math.log((share**-2 - 1.0) / LOGIT.variance)


def _atanh(value: float) -> float:
    return math.copysign(_INF, value) if abs(value) >= 1.0 else math.atanh(value)


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -_INF


def _exp(value: float) -> float:
    return math.exp(value) if value < 700.0 else _INF


_IDENTITY = Scale(_same, _same)
_TANH = Scale(math.tanh, _atanh)


# -- fits along a path -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """The best fit at one value of the coordinate."""

    u: float
    branch: Branch
    solution: Solution


class Curve:
    """The fits along a path, which are remembered as starts of the next ones."""

    def __init__(self, path: Path, tick: Callable[[int], Any] | None = None) -> None:
        self.path = path
        self.points: list[Point] = []  # best at each value, by u
        self._fitted: list[dict[float, Solution]] = [{} for _ in path.branches]
        self._tick = tick or (lambda count: None)

    def fit(self, values: Floats, *, thorough: bool = False) -> list[Point]:
        """Fit every branch at these values of u; the best at each, in ascending order.

        Left out is a value whose maximum lies beyond the sigma that is searched, on a path that
        closes at an infinite one; ``thorough`` searches farther.
        """
        us = np.unique(values)
        for branch, fitted in zip(self.path.branches, self._fitted, strict=True):
            todo = us[branch.exists(us)]
            for start in range(0, len(todo), _CHUNK):
                chunk = todo[start : start + _CHUNK]
                fitted |= dict(zip(chunk.tolist(), _fit(branch, chunk, fitted), strict=True))
        best = (self._best(float(u), thorough) for u in us)
        found = [point for point in best if point is not None]
        self.points = sorted([*self.points, *found], key=lambda point: point.u)
        self._tick(len(us))
        return found

    def _best(self, u: float, thorough: bool) -> Point | None:
        there = [
            Point(u, branch, fitted[u])
            for branch, fitted in zip(self.path.branches, self._fitted, strict=True)
            if u in fitted
        ]
        best = max(there, key=lambda point: comparable(point.solution))
        leaving = [p for p in there if p.solution.status is Status.SIGMA_INFINITE]
        if self.path.closes_at_infinity and leaving:
            closer = _closer(leaving[0]) if thorough else leaving[0]
            gone = closer.solution.status is Status.SIGMA_INFINITE
            return None if gone else max(best, closer, key=lambda p: comparable(p.solution))
        # Where no face is as good as the edge of the interior searched: go on closer to the face.
        return _closer(best) if best.branch.at_bound(best.solution.params) else best

    def width(self) -> float:
        """Standard error of u by the curvature of the profile at the estimate.

        Where it is not concave there, a share of the range.
        """
        u = float(np.clip(self.path.estimate, *self.path.range))
        low, high = self.path.range
        share = (high - low) / (2.0 * REACH) if math.isfinite(high - low) else max(abs(u), 1.0)
        there = self.fit(np.array([u]), thorough=True)
        if not there:
            return share
        best = there[0]
        held = list(best.branch.held)
        step = 1e-4 * max(1.0, abs(u))
        ends = [best.branch.put(best.branch.start, u + sign * step)[held] for sign in (1, -1)]
        slope = (ends[0] - ends[1]) / (2.0 * step)
        hessian = best.solution.hessian
        tangent = _tangent(best.branch, best.solution, slope)
        tangent[held] = slope
        curvature = -float(tangent @ hessian @ tangent)
        return 1.0 / math.sqrt(curvature) if curvature > 0.0 else share


def _closer(point: Point) -> Point:
    """The point refitted within the form's full bounds, where they were narrow."""
    wide = wider(point.branch)
    if wide is None:
        return point
    found = maximize_batch(wide.objective, point.solution.params[None], free=wide.free)[0]
    other = Point(point.u, wide, found)
    return max(point, other, key=lambda p: comparable(p.solution))


def _fit(branch: Branch, us: Floats, fitted: dict[float, Solution]) -> list[Solution]:
    starts = np.stack([_start(branch, float(u), fitted) for u in us])
    found = maximize_batch(branch.objective, starts, free=branch.free)
    lost = [i for i, solution in enumerate(found) if not ended_well(solution)]
    well = {float(u): s for u, s in zip(us, found, strict=True) if ended_well(s)} | fitted
    if lost and well:
        again = np.stack([_start(branch, float(us[i]), well, tangent=False) for i in lost])
        for i, solution in zip(
            lost, maximize_batch(branch.objective, again, free=branch.free), strict=True
        ):
            found[i] = max(found[i], solution, key=comparable)
    return found


def _start(branch: Branch, u: float, fitted: dict[float, Solution], tangent: bool = True) -> Floats:
    """The nearest fit, moved along the path's tangent."""
    if not fitted:
        return branch.put(branch.start, u)
    finite = [v for v in fitted if math.isfinite(v)] or list(fitted)
    at = float(np.clip(u, min(finite), max(finite)))
    nearest = fitted[min(finite, key=lambda v: abs(v - at))]
    start = branch.put(nearest.params, u)
    held = list(branch.held)
    if tangent and held and np.isfinite(start).all():
        move = _tangent(branch, nearest, (start - nearest.params)[held])
        size = float(np.linalg.norm(move * branch.objective.scale))
        start += move * min(1.0, 2.0 / max(size, 1e-300))
    return start


def _tangent(branch: Branch, solution: Solution, move: Floats) -> Floats:
    """(P,) move of the refitted parameters with this move of the held ones; zeros for those."""
    free, held = branch.free, list(branch.held)
    hessian = solution.hessian
    found = np.zeros(len(free))
    pull = hessian[free][:, held] @ move
    found[free] = -np.linalg.lstsq(hessian[free][:, free], pull, rcond=1e-10)[0]
    return found
