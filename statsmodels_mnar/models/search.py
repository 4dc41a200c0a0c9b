"""From start values to the global maximum: every dependence is tried, and the faces of the form.

With the dependence held, the log-likelihood of labelled and unlabelled rows is concave in the
coefficients: its factors are log-concave in the indices and the error, and so is the integral
(Prekopa). Local maxima can therefore differ in the dependence only. A grid over the dependence,
each value with its coefficients fitted, shows where they are; Newton climbs from each top of that
profile. Where rows are many a sample of them shows the tops, and Newton goes on with all rows. From
a maximum on a face the search goes on there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch

from ..design import check_separation
from ..design.data import unpenalised_columns
from ..kernel.forms import FreeForm
from ..kernel.integration import Integration, Quadrature
from ..kernel.links import mills
from ..kernel.rows import Rows
from ..kernel.threads import one_thread
from ..optimize.binary import Independent
from ..optimize.maximize import NEAR, Method, as_optimizer, maximize, maximize_many, parts
from ..optimize.objective import Objective
from ..optimize.solution import Accuracy, Climb, Solution, Status, comparable, ended_well, measure
from ..post.dependence import Normalization
from ..results.fitted import Fit
from ..types import Floats, Mask

if TYPE_CHECKING:
    from .selection import SelectionModel

SEPARATION_ROWS = 20_000  # of a sample in which separation of data in partitions is looked for


def _fit_searched(
    self: SelectionModel,
    start_params: Floats | None,
    method: Method,
    penalty: float,
    options: dict[str, Any],
) -> Fit:
    """Fit the two equations apart, and search for the maximum from there or from start values.

    Where the equations apart have no maximum, an error says why.
    """
    independent = self._independent(method, penalty, start_params is not None)
    unpenalised = not penalty and as_optimizer(method).at_maximum
    if unpenalised and not independent.converged:
        self._check_separation()
    return self._fit_checked(independent, start_params, method, penalty, options)


def _fit_checked(self: SelectionModel, *arguments: Any) -> Fit:
    """:meth:`_fit`, repeated by a finer rule where the one asked for is too coarse.

    From where it began, not from the solution: a coarse rule invents maxima.
    """
    fit = self._fit(*arguments)
    if fit.solution.status is Status.NONFINITE:
        return fit
    found = _accuracy_of(self, fit)
    if not found.sufficient and not found.simulated and fit.optimizer.at_maximum:
        finer = self.sibling(self.normalization, integration=self.integration.finer())
        fit = finer._fit(*arguments)
        found = replace(_accuracy_of(finer, fit), replaced=found)
    return replace(fit, accuracy=found)


def _accuracy_of(self: SelectionModel, fit: Fit) -> Accuracy:
    """Return the accuracy of the solution and, on a face, of the search that led there."""
    fixed = isinstance(self.integration, Quadrature)
    if fit.inner is not None and fixed and self.integration.controlled() != self.integration:
        searched = _measured(self, fit.inner, fit.penalty, maximum=False)
        if not searched.sufficient:
            return searched
    maximum = fit.solution.status.converged or fit.solution.status.boundary
    return _measured(cast("SelectionModel", fit.model), fit.solution, fit.penalty, maximum=maximum)


def _measured(
    self: SelectionModel, solution: Solution, penalty: float, *, maximum: bool
) -> Accuracy:
    """Hold the integration at a solution against a finer rule."""
    form, rule = self.parametrized.form, self.integration
    whole_line = isinstance(form, FreeForm)
    if not whole_line:  # which has a rule of its own
        rule = rule.controlled()
    finer = rule.finer()
    own = self.objective(penalty)
    objective = own.with_form(self.parametrize(self.normalization, finer).form)
    # Of a rule whose error is known beforehand a part of the rows tells enough.
    controlled = isinstance(own, Objective) and rule.controlled() == rule
    difference, shift = measure(
        own if controlled else None, objective, solution, self.estimated, maximum=maximum
    )

    def words(rule: Integration) -> str:
        return str(rule) if whole_line else f"Gauss-Legendre (tol {rule.controlled().tol:g})"

    simulated = form.simulation is not None
    return Accuracy(words(rule), words(finer), difference, shift, simulated)


def _fit(
    self: SelectionModel,
    independent: Independent,
    start_params: Floats | None,
    method: Method,
    penalty: float,
    options: dict[str, Any],
) -> Fit:
    """Return the maximum of this form, and where it lies on a face, that of the face.

    With sigma and rho both free, the search is that of the module `free`.
    """
    objective = self.objective(penalty)
    spec = self.parametrized
    options = dict(options)
    n_starts = options.pop("n_starts", None)
    optimizer = as_optimizer(method)
    if spec.kind == "free" and spec.free.all() and optimizer.batched:
        if start_params is None:
            return self._fit_closed(objective, independent, penalty, n_starts, options)
        return self._fit_from(objective, independent, start_params, penalty, options)
    start = None if start_params is None else self.expand(start_params)
    maxima: tuple[Solution, ...] = ()
    climbs: tuple[Climb, ...] = ()
    if optimizer.free_only:
        maxima = (maximize(self._sgd_objective(options), start, method=method, **options),)
    elif start is None:
        fixed = spec.values(np.zeros(spec.free.sum()))
        at = (objective, independent.params, fixed, spec.free, n_starts, _rarest_label(self))
        if optimizer.batched:
            found = search(*at, **options)
            maxima, climbs, start = found.maxima, found.climbs, found.start
        else:
            start = tops(*at)[0]
    if not maxima:
        ended = maximize(objective, start, method=method, free=self.estimated, **options)
        maxima = (at_corner(objective, ended),)
    used = None if start is None else start[self.estimated]
    solution = maxima[0]
    face = _face_of(self, solution)
    if face is not None:
        # With the dependence held the coefficients are those that the search ended with.
        held = None if face == "independent" else solution.params[: len(independent.params)]
        on_face = self.sibling(face)._fit(independent, held, method, penalty, options)
        fit = replace(named(on_face, solution.status), inner=solution)
    else:
        faces = {"independent": independent.value}
        fit = Fit(self, solution, independent, method, used, penalty, faces)
    others = tuple((self, other) for other in maxima[1:])
    return replace(fit, climbs=climbs, maxima=((fit.model, fit.solution), *others))


def maximum(self: SelectionModel, independent: Independent) -> Solution:
    """The maximum of the likelihood, without anything around it."""
    return self._fit(independent, None, "newton", 0.0, {}).solution


def _rarest_label(self: SelectionModel) -> float:
    """Share of the rows that have the rarer label; in partitions it is not looked for."""
    if self.in_partitions:
        return 0.5
    y = self.design.y[self.design.labelled]
    ones = float((y > 0.5).sum())
    return min(ones, len(y) - ones) / self.design.nobs


def _face_of(self: SelectionModel, solution: Solution) -> Normalization | None:
    """The normalization of the face on which a search that ended at a bound goes on."""
    status, spec = solution.status, self.parametrized
    if not status.boundary:
        return None
    if spec.kind == "free" and spec.free.all():
        return self._faces[status]
    at = spec.form.dependence(solution.params[self.k_outcome + self.k_select :])
    if spec.kind != "probit" and status in (Status.RHO_PLUS, Status.RHO_MINUS):
        return {"sigma": at.sigma, "rho": float(np.sign(at.rho))}
    limit = self._faces.get(status)
    if limit == "independent" or at.sigma == 0.0:  # such a top may be flat around independence
        return "independent"
    return {"sigma": np.inf if limit == "probit" else at.sigma, "rho": at.rho}


def named(face: Fit, status: Status) -> Fit:
    """A converged fit on a face, by the name of the boundary."""
    if not face.solution.status.converged:
        return face
    return replace(face, solution=replace(face.solution, status=status), start_params=None)


@one_thread()
def _check_separation(self: SelectionModel) -> None:
    """Raise with the column and the remedies where an equation separates perfectly."""
    rows = self.plain_rows().spread(SEPARATION_ROWS)  # separated rows are so in any sample
    counted = rows.weight > 0
    selected, seen = rows.tilt[counted] > 0, counted & (rows.tilt > 0)
    y = (0.5 * (1.0 + rows.sign[seen])).cpu().numpy()
    X, W = rows.X[:, seen].mT.cpu().numpy(), rows.W[:, counted].mT.cpu().numpy()
    d, terms = self.design, self.design.penalised
    X, outcome_names = unpenalised_columns(X, d.outcome_names, terms, "outcome")
    W, select_names = unpenalised_columns(W, d.select_names, terms, "select")
    check_separation(y, X, outcome_names, "outcome")
    check_separation(selected.double().cpu().numpy(), W, select_names, "selection")


# -- the search over the dependence, on a part of the rows where they are many ---------------------


# atanh of the error correlations (of rho, where sigma is fixed) that are tried.
_GRID = (-1.9, -1.2, -0.6, 0.0, 0.6, 1.2, 1.9)
_FAR = 3.0  # the same, tried besides: a profile may rise again on its way to a corner
_WIDEST = 2.4  # of a grid of the user's own size
_LNSIGMA = (math.log(0.1), math.log(10.0))  # of the grid where only sigma is free
_HELD_STEPS = 3  # of Newton at most, at each value of the grid: enough to rank them
_ROUGH = {"maxiter": _HELD_STEPS, "aim": 0.3}  # standard errors: the rest is foreseen
_FORESEEN = 0.05  # log-likelihood that one more step gains, near enough to what is foreseen
_SMALL_GAIN = 1.0  # the same after the last step that is taken
_COARSE = 1e-3  # tolerance of the integrals meanwhile: 0.001 in the log-likelihood of 400 rows
_SAMPLE = 1024  # rows on which the grid is tried, where there are four times as many
_LARGER = 8  # times as many rows on which its tops are climbed first
# Standard errors, times the fourth root of the rows: from there one step of Newton leads to where
# the nodes of the search tell no more. Its distance is squared, about over the root of the rows.
_START = 0.5
_RARE = 100  # labels of the rarer kind that a sample should have
_SAME = 0.02  # atanh of the error correlation: closer maxima of one form are one
_LEVEL = 1e-3  # log-likelihood: a corner that is lower by less than this belongs to a flat top
_HOPELESS = 12.0  # log-likelihood by which a sample's maximum may fall behind on all rows


@dataclass(frozen=True, slots=True)
class Found:
    """Maxima of one form, the highest first, and the climbs that led to them."""

    maxima: tuple[Solution, ...]
    climbs: tuple[Climb, ...]
    start: Floats  # (P,) of the best climb


def search(
    objective: Objective,
    coef: Floats,
    fixed: Floats,
    free: Mask,
    n_starts: int | None = None,
    rarest: float = 0.5,
    **options: Any,
) -> Found:
    """Maximise a form with at most one free dependence parameter over all of its values.

    Parameters
    ----------
    coef : ndarray
        (p + k,) coefficients of the two equations fitted apart.
    fixed, free : ndarray
        (d,) values of fixed dependence parameters, and which are not fixed.
    n_starts : int, optional
        Values of the dependence that are tried; by default seven.
    rarest : float
        Share of the rows with the rarer label, for the size of a sample.
    **options
        Of :func:`~statsmodels_mnar.optimize.maximize.maximize_many`.
    """
    estimated = np.concatenate([np.ones(len(coef), dtype=bool), free])
    starts = tops(objective, coef, fixed, free, n_starts, rarest)
    found = _climb(objective, starts, estimated, options)
    return Found(distinct(objective, found), _climbs(objective, starts, found), starts[0])


def _climbs(objective: Objective, starts: Floats, found: list[Solution]) -> tuple[Climb, ...]:
    def corr(params: Floats) -> float:
        return math.tanh(objective.form.atcorr(params[objective.n_coef :]))

    return tuple(
        Climb(corr(start), corr(end.params), end.value, end.status, end.n_iter)
        for start, end in zip(starts, found, strict=True)
    )


def tops(
    objective: Objective,
    coef: Floats,
    fixed: Floats,
    free: Mask,
    n_starts: int | None = None,
    rarest: float = 0.5,
) -> Floats:
    """(m, P) start values, one for each top of the profile over the grid, the highest first."""
    starts = grid_starts(objective, coef, fixed, free, n_starts)
    if len(starts) == 1:
        return starts
    estimated = np.concatenate([np.ones(len(coef), dtype=bool), free])
    count = _sample_of(rarest)
    n = objective.rows.n
    # Penalised columns make every row dearer.
    worth = 4 if objective.smoothing is None else 2
    small = _coarse(objective.sample(count) if n > worth * count else objective)
    held = np.concatenate([np.ones(len(coef), dtype=bool), np.zeros_like(free)])
    far = _far(objective, free)
    if far is not None:
        ends = _moved(objective, starts[[0, -1]], [-far, far])
        starts = np.concatenate([ends[:1], starts, ends[1:]])
    starts = _foreseen(small, starts, coef)
    at = len(coef) + int(np.argmax(free))
    fitted = _profile(small, starts, held, at)
    fitted, inside = _corners(small, fitted, held, at, far)
    values = np.array([tried.value for tried in fitted])
    order = [i for i in _local_maxima(values) if np.isfinite(fitted[i].params).all()]
    order.sort(key=lambda i: -values[i])
    if not order:
        return starts[[int(np.argmax(values))]]
    begin = np.stack([_between(objective, fitted, i, at) for i in order])
    # Most of the way to a maximum is the same on a part of the rows, and by fewer nodes.
    stages = [(_coarse(part), NEAR) for part in parts(objective, part_of(rarest))]
    if small.rows.n < n:
        stages.append((_coarse(objective), _START * n**0.25))
    for larger, aim in stages:
        climbed = _climb(larger, begin, estimated, {"maxiter": 50, "aim": aim})
        kept = [solution for solution in climbed if ended_well(solution)]
        ahead = [
            s.params for s in distinct(larger, kept) if not _hopeless(s, kept, n / larger.rows.n)
        ]
        begin = np.stack(ahead) if ahead else begin
    corr = [abs(objective.form.atcorr(start[objective.n_coef :])) for start in begin]
    misled = small.rows.n < n or inside.value > values.max() - _FORESEEN
    return np.vstack([begin, inside.params]) if misled and min(corr) > _FAR else begin


def _sample_of(rarest: float) -> int:
    """Rows on which the grid is tried, if there are many more."""
    return max(_SAMPLE, math.ceil(_RARE / max(rarest, 1e-6)))


def part_of(rarest: float) -> int:
    """Rows on which tops are climbed, if there are many more."""
    return _LARGER * _sample_of(rarest)


def _foreseen(objective: Objective, starts: Floats, coef: Floats) -> Floats:
    """Starts whose outcome coefficients allow for the selection at their dependence.

    Given selection at the index b, the selection error has the mean m = phi(b)/PHI(b) and the
    variance v = 1 - m (m + b). The outcome's index that leaves a labelled row's probability as it
    was without dependence is therefore about a sqrt(1 - c^2 (1 - v)) - c m in units of the total
    error, c the error correlation; the coefficients are its regression on the columns.
    """
    rows, form, p = objective.rows, objective.form, objective.p
    if not isinstance(rows, Rows) or rows.batched:
        return starts
    labelled = rows.tilt > 0
    X, weight = rows.X[:, labelled], rows.weight[labelled]
    beta, gamma = (torch.as_tensor(v, device=rows.device) for v in (coef[:p], coef[p:]))
    offset = rows.offset[labelled]
    a = beta @ X + offset
    b = gamma @ rows.W[:, labelled] + rows.offset_select[labelled]
    m = mills(b)
    v = (1.0 - m * (m + b)).clamp(min=0.0)
    values = starts[:, objective.n_coef :]
    corr = np.array([[math.tanh(form.atcorr(value))] for value in values])
    unit = np.array([[form.outcome_units(value)] for value in values])
    c, units = (torch.as_tensor(v, device=rows.device) for v in (corr, unit))
    error = math.sqrt(form.link.variance)
    index = units * (a * torch.sqrt(1.0 - c**2 * (1.0 - v)) - error * c * m)  # (G, n)
    likely = weight / (2.0 + a.abs().exp())  # as the information of a logit
    found, failed = torch.linalg.solve_ex((X * likely) @ X.mT, (X * likely) @ (index - offset).mT)
    new = found.mT.cpu().numpy()
    if failed or not np.isfinite(new).all():
        return starts
    return np.column_stack([new, starts[:, p:]])


class _Tried(NamedTuple):
    """A value of the dependence with its coefficients fitted."""

    params: Floats  # (P,)
    value: float
    slope: float  # of the profile

    @classmethod
    def of(cls, solution: Solution, held: Mask, at: int) -> _Tried:
        """From a fit of Newton's, by what its quadratic model foresees of the next step."""
        assert solution.score is not None
        coef, score, hessian = held.nonzero()[0], solution.score, solution.hessian
        alone = cls(solution.params, comparable(solution), float(score[at]))
        try:
            step = np.linalg.solve(-hessian[np.ix_(coef, coef)], score[coef])
        except np.linalg.LinAlgError:
            return alone
        gain = 0.5 * float(step @ score[coef])
        if not 0.0 <= gain < _SMALL_GAIN or not np.isfinite(solution.value):
            return alone
        params, value = solution.params.copy(), solution.value
        if not ended_well(solution):  # those that have include the step
            params[coef] += step
            value += gain
        return cls(params, value, float(score[at] + hessian[at, coef] @ step))


def _profile(objective: Objective, starts: Floats, held: Mask, at: int) -> list[_Tried]:
    """Fit the coefficients at each start, well enough to rank them.

    By plain Newton steps, which the concave problem and good starts allow, and by the trust region
    for those that such a step would not raise. ``at`` is the position of the free dependence.
    """
    coef = held.nonzero()[0]
    theta, found = starts.copy(), dict[int, _Tried]()
    best = theta.copy()  # the last that were not lower than those before
    running, value = np.arange(len(starts)), np.full(len(starts), -np.inf)
    foreseen = value.copy()
    for left in reversed(range(_HELD_STEPS + 1)):
        now = objective.evaluate(theta[running], 2)
        assert now.score is not None
        assert now.hessian is not None
        new, score, hessian = (v.cpu().numpy() for v in (now.value, now.score, now.hessian))
        information = torch.as_tensor(-hessian[:, coef[:, None], coef])
        solved, failed = torch.linalg.solve_ex(information, torch.as_tensor(score[:, coef]))
        step = solved.numpy()
        gain = 0.5 * (step * score[:, coef]).sum(-1)
        sound = (failed.numpy() == 0) & (gain >= 0.0) & (new >= value[running])
        kept = running[sound]
        best[kept], value[kept], foreseen[kept] = theta[kept], new[sound], (new + gain)[sound]
        theta[np.ix_(kept, coef)] += step[sound]
        slope = score[:, at] + (hessian[:, at, coef] * step).sum(-1)
        ended = gain <= (_SMALL_GAIN if left == 0 else _FORESEEN)
        ended = sound & (ended | _below_another(value, foreseen)[running])
        for i, member in zip(np.flatnonzero(ended), running[ended].tolist(), strict=True):
            found[member] = _Tried(theta[member], float(foreseen[member]), float(slope[i]))
        running = running[sound & ~ended]
        if not len(running):
            break
    rest = [i for i in range(len(starts)) if i not in found]
    if rest:
        climbed = _climb(objective, best[rest], held, _ROUGH)
        found |= {i: _Tried.of(each, held, at) for i, each in zip(rest, climbed, strict=True)}
    return [found[i] for i in range(len(starts))]


def _below_another(value: Floats, foreseen: Floats) -> Mask:
    """Which members of a profile are no top of it, whatever they still gain.

    One that is lower than one beside it, even if it gained three times what is foreseen, need not
    be fitted any better, unless a cubic through the highest one and it shows where the maximum is.
    """
    most = value + 3.0 * (foreseen - value)
    beside = np.full(len(value), -np.inf)
    beside[:-1] = value[1:]
    beside[1:] = np.maximum(beside[1:], value[:-1])
    top = int(np.argmax(foreseen))
    below = np.asarray(most < beside)
    below[max(top - 1, 0) : top + 2] = False
    return below


def _between(objective: Objective, fitted: list[_Tried], i: int, at: int) -> Floats:
    """Where the cubic through a top of the profile and its neighbour has its maximum.

    By the values and the slopes of the two; ``at`` is the position of the free dependence.
    """
    here = fitted[i]
    j = i + (1 if here.slope > 0 else -1)
    if not 0 <= j < len(fitted) or not np.isfinite(fitted[j].params).all():
        return here.params
    form, n_coef = objective.form, objective.n_coef
    first, last = (here, fitted[j]) if i < j else (fitted[j], here)
    x0, x1, s0, s1 = first.params[at], last.params[at], first.slope, last.slope
    if not (s0 > 0.0 > s1 and x1 > x0):
        return here.params
    # In the coordinate in which the grid is even, where the form has one: atanh of the correlation.
    even = form.at_corr(np.zeros(1)) is not None
    u0, u1 = x0, x1
    if even:
        u0, u1 = (form.atcorr(tried.params[n_coef:]) for tried in (first, last))
        s0, s1 = (
            tried.slope / form.corr_slope(tried.params[n_coef:])[0] for tried in (first, last)
        )
    width = u1 - u0
    rise = (last.value - first.value) / width
    # Derivative of the cubic at u0 + share * width: s0 + (6 rise - 4 s0 - 2 s1) share + ...
    c, b, a = s0, 6.0 * rise - 4.0 * s0 - 2.0 * s1, 3.0 * (s0 + s1) - 6.0 * rise
    root = math.sqrt(max(b * b - 4.0 * a * c, 0.0))
    share = 2.0 * c / (root - b) if root > b else 0.5
    if not 0.0 < share < 1.0:
        return here.params
    u = u0 + share * width
    found = first.params.copy()
    value = form.at_corr(np.array([u])) if even else None
    found[at] = u if value is None else value[0]
    units = _units(objective)
    scales = [units(tried.params[n_coef:]) for tried in (first, last)]
    coefs = [tried.params[:n_coef].copy() for tried in (first, last)]
    for coef, scale in zip(coefs, scales, strict=True):
        coef[: objective.p] /= scale
    found[:n_coef] = (1.0 - share) * coefs[0] + share * coefs[1]
    found[: objective.p] *= units(found[n_coef:])
    return found


def _corners(
    objective: Objective, fitted: list[_Tried], held: Mask, at: int, far: float | None
) -> tuple[list[_Tried], _Tried]:
    """The fits over the grid and on to the corners, and the best one inside.

    A profile may fall and rise again on its way to a corner. From the bound itself Newton needs a
    few steps; from the grid it would creep there. So where the profile rises towards a bound, the
    bound is fitted too. But one row that contradicts a perfect correlation takes all rows away from
    the corner, and a sample may not have it; from there the climb on all rows would not find its
    way back. So the best fit inside is kept for samples that see nothing but corners, and for a top
    so flat that these fits do not tell a corner from it.
    """
    if far is None:
        return fitted, max(fitted, key=attrgetter("value"))
    ends = {-1: fitted[:3], 1: fitted[:-4:-1]}
    at_bound: dict[int, list[_Tried]] = {-1: [], 1: []}
    for side, inward in ends.items():
        first, second, third = (tried.value for tried in inward)
        if first > second or second > third:
            for value in objective.form.to_bound():
                near = [*inward[:1], *at_bound[side]][-1]
                start = _moved(objective, near.params[None], [side * value])
                climbed = _climb(objective, start, held, {"maxiter": _HELD_STEPS + 1})
                at_bound[side] += [_Tried.of(each, held, at) for each in climbed]
    inside = max(fitted[1:-1], key=attrgetter("value"))
    return [*reversed(at_bound[-1]), *fitted, *at_bound[1]], inside


def _units(objective: Objective) -> Callable[[Floats], float]:
    """What outcome coefficients are multiplied by as the dependence changes.

    Beside an offset, whose unit does not change, they are left as they are.
    """
    if isinstance(objective.rows, Rows) and bool(objective.rows.offset.any()):
        return lambda values: 1.0
    return objective.form.outcome_units


def _moved(objective: Objective, params: Floats, values: list[float]) -> Floats:
    """(m, P) with the one dependence parameter at these values, coefficients in their units."""
    starts = params.copy()
    units = _units(objective)
    scales = [units(np.array([v])) / units(s[-1:]) for v, s in zip(values, starts, strict=True)]
    starts[:, : objective.p] *= np.array(scales)[:, None]
    starts[:, -1] = values
    return starts


def tops_many(
    objective: Objective, coefs: Floats, fixed: Floats, free: Mask
) -> tuple[Floats, Mask]:
    """Start values of the members of a batch that have rows of their own.

    Returns
    -------
    starts : ndarray
        (B, P): the value of the grid whose coefficients, once fitted, are the most likely.
    single : ndarray of bool
        (B,) whether the profile over the grid has that top only, inside; others need a search of
        their own.
    """
    grids = np.stack([grid_starts(objective, coef, fixed, free) for coef in coefs], axis=1)
    if len(grids) == 1:
        return grids[0], np.ones(len(coefs), dtype=bool)
    held = np.concatenate([np.ones(coefs.shape[1], dtype=bool), np.zeros_like(free)])
    fitted = [_climb(objective, starts, held, {"maxiter": _HELD_STEPS}) for starts in grids]
    far = _far(objective, free)
    if far is not None:
        lower, upper = (
            _held_at(objective, end, [value] * len(end), held)
            for end, value in ((fitted[0], -far), (fitted[-1], far))
        )
        fitted = [lower, *fitted, upper]
    values = np.array([[comparable(s) for s in at] for at in fitted])
    best = np.argmax(values, axis=0)
    single = [
        _local_maxima(own) == [top] and 0 < top < len(fitted) - 1
        for own, top in zip(values.T, best, strict=True)
    ]
    starts = np.stack([fitted[i][b].params for b, i in enumerate(best)])
    return starts, np.array(single)


def _held_at(
    objective: Objective, near: list[Solution], values: list[float], held: Mask
) -> list[Solution]:
    """Fits with the dependence at each value, from a fit near by."""
    starts = _moved(objective, np.stack([solution.params for solution in near]), values)
    return _climb(objective, starts, held, {"maxiter": _HELD_STEPS + 1})


def _far(objective: Objective, free: Mask) -> float | None:
    """The dependence tried beyond the grid, in forms whose corner lies there."""
    far = objective.form.at_corr(np.array([_FAR]))
    return None if far is None or not free.any() else float(far[0])


def _coarse(objective: Objective) -> Objective:
    """With as few nodes as tell the values of a grid apart."""
    return objective.with_form(objective.form.coarse(_COARSE))


def _climb(
    objective: Objective, starts: Floats, free: Mask, options: dict[str, Any]
) -> list[Solution]:
    parts = maximize_many(objective, starts, free=free, **options)
    return [at_corner(objective, solution) for part in parts for solution in part]


def at_corner(objective: Objective, solution: Solution) -> Solution:
    """Name the corner of the probit form at which the likelihood has become flat.

    Where no row is near the kink that the likelihood has there, it no longer depends on rho.
    """
    side = objective.form.corner(solution.params[objective.n_coef :])
    if solution.status is not Status.FLAT or not side:
        return solution
    return replace(solution, status=Status.RHO_PLUS if side > 0 else Status.RHO_MINUS)


def _local_maxima(values: Floats) -> list[int]:
    padded = np.concatenate([[-np.inf], values, [-np.inf]])
    inner = padded[1:-1]
    return np.flatnonzero((inner >= padded[:-2]) & (inner > padded[2:])).tolist()


def _hopeless(solution: Solution, others: list[Solution], ratio: float) -> bool:
    """Whether a maximum of a sample falls behind by so much that all rows will not turn it round.

    The shortfall grows with the rows, its error with their root only.
    """
    behind = max(comparable(other) for other in others) - comparable(solution)
    return behind * ratio - 4.0 * math.sqrt(max(behind, 0.0)) * ratio > _HOPELESS


def grid_starts(
    objective: Objective, coef: Floats, fixed: Floats, free: Mask, n_starts: int | None = None
) -> Floats:
    """(G, P) the grid over the free dependence, each with coefficients in its units."""
    form = objective.form
    if not free.any():
        return np.concatenate([coef, fixed])[None]
    u = np.array(_GRID) if n_starts is None else np.linspace(-_WIDEST, _WIDEST, n_starts)
    one = form.at_corr(u)
    if one is not None:
        grid = one[:, None]
    else:
        lnsigma = np.linspace(*_LNSIGMA, len(u)) if free[0] else np.full(len(u), fixed[0])
        grid = np.column_stack([lnsigma, u if free[1] else np.full(len(u), fixed[1])])
    rows = np.column_stack([np.tile(coef, (len(grid), 1)), grid])
    units = _units(objective)
    rows[:, : objective.p] *= np.array([[units(values)] for values in grid])
    return rows


def distinct(objective: Objective, found: list[Solution]) -> tuple[Solution, ...]:
    """The climbs that ended at different places, the highest first.

    Those that did not end at a maximum are left out, unless none did.
    """
    found = sorted(found, key=comparable, reverse=True)
    at = [solution for solution in found if ended_well(solution)]
    kept: list[Solution] = []
    for solution in at or found[:1]:
        if not any(_same_top(objective, other, solution) for other in kept):
            kept.append(solution)
    if at and comparable(found[0]) > comparable(at[0]) + 1e-6:
        kept.insert(0, found[0])  # higher than every maximum, though it has not converged
    return tuple(kept)


def _same_top(objective: Objective, higher: Solution, lower: Solution) -> bool:
    """Whether two climbs ended at one maximum, which may reach to a corner that is as high."""
    u, v = _atcorr(objective, higher), _atcorr(objective, lower)
    level = lower.status.boundary and comparable(higher) - comparable(lower) < _LEVEL
    return abs(u - v) <= _SAME or (level and u * v > 0.0)


def _atcorr(objective: Objective, solution: Solution) -> float:
    return objective.form.atcorr(solution.params[objective.n_coef :])
