"""Fits with penalised terms: penalties by the marginal likelihood, around the fits of `search`.

The penalties are first those of the two equations apart, where they cost little. With them held the
dependence is held at zero, and from there penalties and dependence are moved to the maximum of the
marginal likelihood. What integrating the coefficients out adds to the log-likelihood is then a
function of the dependence alone; with it and the penalties held the maximum is searched as always,
over all values of the dependence. Penalties and maximum belong together, so both are done again
until the search finds that maximum itself. Where errors are perfectly correlated at the maximum,
the penalties are those at an error correlation of 0.995.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ..kernel.rows import Apart, Factors, Rows
from ..optimize.binary import BinaryObjective, fit_independent
from ..optimize.maximize import as_optimizer, maximize, maximize_many
from ..optimize.objective import Adjustment, Objective
from ..optimize.penalties import (
    Outer,
    Penalised,
    Penalties,
    adjustment_of,
    at_dependence,
    choose,
    marginal,
    tilted,
    total_penalty,
)
from ..optimize.solution import Solution
from ..results.fitted import Fit
from ..types import Floats

if TYPE_CHECKING:
    from .selection import SelectionModel

_MANY = 100  # levels
_ROUNDS = 4  # of a search and the penalties at its maximum
_SAME = 1e-3  # standard errors by which two maxima may differ
_FARTHEST = 3.0  # atanh of the error correlation up to which the marginal likelihood is followed
_NEARLY = 1e-4  # standard errors to the maxima between which the adjustment is interpolated
_BESIDE = 0.1  # atanh of the error correlation about a maximum where either may be
_SOME_LEVELS = 1_000  # on which the estimation begins where there are four times as many
_ROUGHLY = 0.05  # slope of the marginal likelihood at which penalties of the equations apart end


def blocks_of(self: SelectionModel) -> tuple[Penalised, ...]:
    """The penalised coefficients of each term, in the order of ``design.penalised``."""
    return tuple(
        Penalised(
            term.start + (self.k_outcome if term.equation == "select" else 0),
            term.penalty,
            term.rank,
            term.fixed,
        )
        for term in self.design.penalised
    )


def smoothed(
    self: SelectionModel, penalties: Floats | None, adjustment: Adjustment | None = None
) -> SelectionModel:
    """Return the model with these penalties of its terms, or none yet; it shares the rows."""
    other = self.sibling(self.normalization)
    other._penalties = None if penalties is None else np.asarray(penalties, dtype=float)
    other._adjustment = adjustment
    other._form_by_default = self._form_by_default
    if self._rows is not None:
        other._rows = penalised_rows(other, self._rows)
    return other


def penalised_rows(self: SelectionModel, rows: Rows) -> Rows:
    """Return the rows with the penalties of the model's terms."""
    apart = [j for j, term in enumerate(self.design.penalised) if term.apart]
    effects = None
    if apart:
        term = self.design.penalised[apart[0]]
        precision = 1.0 if self._penalties is None else float(self._penalties[apart[0]])
        effects = Apart(term.equation, term.rank, precision)
    return replace(
        rows, smoothing=smoothing_of(self), adjustment=self._adjustment, factors=factors_of(self),
        apart=effects,
    )  # fmt: skip


def smoothing_of(self: SelectionModel) -> Floats | None:
    """The precision of the terms' coefficients, (p + k, p + k); None without penalties."""
    if self._penalties is None:
        return None
    return total_penalty(self.blocks_of(), self._penalties, self.k_outcome + self.k_select)


def outer(self: SelectionModel) -> Outer | None:
    """The dependence over which the marginal likelihood was maximised, if it was."""
    return None if self._adjustment is None else outer_of(self)


def outer_of(self: SelectionModel) -> Outer | None:
    """The dependence over which the marginal likelihood can be maximised.

    None where sigma and rho are both free, or neither, or one of them is given.
    """
    spec = self.parametrized
    if not spec.free.all() or len(spec.free) != 1:
        return None
    ends = spec.form.at_corr(np.array([-_FARTHEST, _FARTHEST]))
    if ends is None:
        return None
    return Outer(self.k_outcome + self.k_select, float(ends[0]), float(ends[1]))


def factors_of(self: SelectionModel) -> Factors:
    """Which columns of the two designs are indicators of the levels of a term.

    Only where they are many: sums by level are slower than products of a few columns.
    """
    terms = [term for term in self.design.penalised if term.kind == "re" and not term.apart]
    if not any(term.rank >= _MANY for term in terms):
        return ()
    return tuple(
        ("X" if term.equation == "outcome" else "W", term.columns.start, term.columns.stop)
        for term in terms
    )


def fit_penalised(
    self: SelectionModel,
    start_params: Floats | None,
    method: str,
    penalty: float,
    options: dict[str, Any],
) -> Fit:
    """Estimate the penalties that are not fixed, and the model with them.

    A model that has penalties already, such as one of a bootstrap, keeps them.
    """
    if not as_optimizer(method).batched:
        raise ValueError(
            f"method={method!r}: re() and smooth() are fitted by method='newton', whose Hessian "
            "their penalties are estimated with"
        )
    options = dict(options)
    joint = _joint(options.pop("dependence", "marginal"))
    blocks = self.blocks_of()
    _check_weights(self)
    if self._penalties is not None:
        return _with_effects(self._fit_searched(start_params, "newton", penalty, options))
    values = np.array([1.0 if block.fixed is None else block.fixed for block in blocks])
    estimated = np.array([block.fixed is None for block in blocks])
    nothing = np.zeros(len(values), dtype=bool)
    found = Penalties(values, estimated, nothing, np.nan, 0, not estimated.any())
    outer = None if joint else outer_of(self)
    if outer is None and not estimated.any():
        fit = smoothed(self, values)._fit_searched(start_params, "newton", penalty, options)
        marginal_value = _marginal(fit, blocks, found, penalty)
        return _with_effects(replace(fit, penalties=replace(found, marginal=marginal_value)))
    if any(term.apart for term in self.design.penalised):
        rows = smoothed(self, values).rows
        coef = fit_independent(rows, link=self.link, penalty=penalty).params
    else:
        values, coef = _apart(self, values, penalty)
    at = _begun(self, values, coef, penalty, options, outer)
    for _ in range(_ROUNDS):
        if at is None:
            fit = smoothed(self, values)._fit_searched(start_params, "newton", penalty, options)
            if not (fit.solution.status.converged or fit.solution.status.boundary):
                break
            at = cast("SelectionModel", fit.model), fit.solution
        model, solution = at
        if model._penalties is not None:
            values = model._penalties
        bound = outer is not None and outer_of(model) is None
        if bound:
            model = self
        held = outer_of(model) and outer
        climb, free = _climber(model, options, held), _integrated(model, held)
        objective = smoothed(model, values).objective(penalty)
        moved = held
        if bound and held is not None:  # at it the likelihood of an effect has kinks
            end = held.low if solution.params[held.position] < 0.0 else held.high
            start = at_dependence(objective, solution.params, np.array([end]))[0]
            solution = climb(objective, start)
            moved = None
        solution, found = choose(objective, solution, free, blocks, values, climb, moved)
        values = found.values
        if outer is not None:  # at a bound too, where the dependence is no parameter any more
            found = replace(found, adjustment=_adjustment(self, values, solution, penalty))
        chosen = smoothed(self, values, found.adjustment)
        known = start_params
        if moved is not None and any(block.apart for block in blocks):
            atcorr = model.parametrized.form.atcorr(solution.params[moved.position :])
            if abs(atcorr) < _FARTHEST and _only_hump(found.adjustment, atcorr):
                known = solution.params[model.estimated]  # no search, which would tear levels apart
        fit = chosen._fit_searched(known, "newton", penalty, options)
        if not _as_high(fit, solution, model, found, penalty):  # no fit is below a point seen
            start = solution.params[model.estimated]
            again = smoothed(model, values, found.adjustment)
            fit = again._fit_searched(start, "newton", penalty, options)
        still = bound and outer_of(cast("SelectionModel", fit.model)) is None
        if still or _same(fit, solution):
            return _with_effects(replace(fit, penalties=found))
        at = cast("SelectionModel", fit.model), fit.solution
    return _with_effects(replace(fit, penalties=replace(found, values=values, converged=False)))


def _with_effects(fit: Fit) -> Fit:
    """The fit, whose model knows the effects of a factor that is apart."""
    model = cast("SelectionModel", fit.model)
    if any(term.apart for term in model.design.penalised):
        model.effects = model.objective(fit.penalty).effects(fit.solution.params)
    return fit


def _joint(dependence: Any) -> bool:
    """Whether the dependence is that of the joint mode of all parameters."""
    if dependence not in ("marginal", "joint"):
        raise ValueError(f"dependence={dependence!r} is unknown; use 'marginal' or 'joint'")
    return bool(dependence == "joint")


def _integrated(self: SelectionModel, outer: Outer | None) -> NDArray[np.bool_]:
    """(P,) the parameters that the marginal likelihood integrates out."""
    free = self.estimated
    if outer is not None:
        free[outer.position] = False
    return free


def _begun(
    self: SelectionModel,
    values: Floats,
    coef: Floats,
    penalty: float,
    options: dict[str, Any],
    outer: Outer | None,
) -> tuple[SelectionModel, Solution] | None:
    """The maximum near independence, where the search will most likely end too.

    With the dependence held there, where that is outer. None where it is not on the way: sigma and
    rho are both free, or a bound is met.
    """
    spec, count = self.parametrized, int(self.parametrized.free.sum())
    if count > 1 or (count == 1 and spec.form.at_corr(np.zeros(1)) is None):
        return None
    start = np.append(coef, spec.values(np.zeros(count)))
    apart = smoothed(self, values).rows.apart
    if apart is not None and apart.count >= 4 * _SOME_LEVELS:
        values, start = _on_some_levels(self, values, start, penalty, options, outer)
    model = smoothed(self, values)
    solution = _climber(model, options, outer)(model.objective(penalty), start)
    return (model, solution) if solution.status.converged else None


def _climber(
    self: SelectionModel, options: dict[str, Any], outer: Outer | None
) -> Callable[[Objective, Floats], Solution]:
    limits = {name: options[name] for name in ("maxiter", "gtol") if name in options}
    free = _integrated(self, outer)
    return lambda objective, start: maximize(objective, start, free=free, **limits)


def _adjustment(
    self: SelectionModel, values: Floats, solution: Solution, penalty: float
) -> Adjustment | None:
    """What integrating out the coefficients adds to the log-likelihood of each dependence."""
    objective, outer = smoothed(self, values).objective(penalty), outer_of(self)
    free = _integrated(self, outer)

    def climb(objective: Objective, starts: Floats) -> list[Solution]:
        chunks = maximize_many(objective, starts, free=free, aim=_NEARLY)
        return [each for chunk in chunks for each in chunk]

    apart = objective.rows.apart
    if apart is None or apart.count <= _SOME_LEVELS:
        return adjustment_of(objective, solution, self.blocks_of(), climb)
    part, times = objective.sample_levels(_SOME_LEVELS), apart.count / _SOME_LEVELS
    found = adjustment_of(part, solution, self.blocks_of(), climb, times)
    return None if found is None else tilted(found, objective, solution)


def _only_hump(adjustment: Adjustment | None, atcorr: float) -> bool:
    """Whether the likelihood rises up to this dependence and falls beyond it, knot by knot."""
    if adjustment is None or adjustment.profile is None:
        return False
    rises = np.diff(adjustment.profile + adjustment.values)
    middle = 0.5 * (adjustment.knots[1:] + adjustment.knots[:-1])
    beside = np.abs(middle - atcorr) < _BESIDE
    return bool(np.all(beside | ((rises > 0.0) == (middle < atcorr))))


def _on_some_levels(
    self: SelectionModel,
    values: Floats,
    start: Floats,
    penalty: float,
    options: dict[str, Any],
    outer: Outer | None,
) -> tuple[Floats, Floats]:
    """Penalties and estimates from the rows of a part of the levels, to begin with."""
    part = smoothed(self, values).objective(penalty).sample_levels(_SOME_LEVELS)
    climb, free = _climber(self, options, outer), _integrated(self, outer)
    solution = climb(part, start)
    if not solution.status.converged:
        return values, start
    blocks = [replace(b, rank=_SOME_LEVELS) if b.apart else b for b in self.blocks_of()]
    solution, found = choose(part, solution, free, blocks, values, climb, outer, slope=_ROUGHLY)
    if not found.converged or found.vanished.any():  # of all levels a variance may be left
        return values, start
    return found.values, solution.params


def _check_weights(self: SelectionModel) -> None:
    """Refuse sampling weights that make the rows count as others than they are."""
    design, rows = self.design, self.plain_rows()
    mean = rows.total_weight / rows.n
    resample = self._held_ridge is not None
    if design.weight_kind == "prob_weights" and abs(mean - 1.0) > 1e-6 and not resample:
        raise ValueError(
            f"prob_weights have the mean {mean:.4g}: penalties of re() and smooth() are weighed "
            "against the log-likelihood, which would be that of another number of rows. Divide the "
            "weights by their mean."
        )


def _apart(self: SelectionModel, values: Floats, penalty: float) -> tuple[Floats, Floats]:
    """Penalties of the two equations fitted apart, and their coefficients."""
    model, blocks = smoothed(self, values), self.blocks_of()
    equations = BinaryObjective.of(model.rows, self.link, penalty)
    values, coef, first = values.copy(), [], 0
    for equation in equations:
        own = [j for j, b in enumerate(blocks) if first <= b.first < first + equation.n_coef]
        moved = [replace(blocks[j], first=blocks[j].first - first) for j in own]
        free = np.ones(equation.n_coef, dtype=bool)
        solution = equation.maximum(np.zeros(equation.n_coef))
        if own and solution.status.converged:
            solution, found = choose(
                equation, solution, free, moved, values[own], BinaryObjective.maximum,
                slope=_ROUGHLY,
            )  # fmt: skip
            values[own] = found.values
        coef.append(solution.params)
        first += equation.n_coef
    return values, np.concatenate(coef)


def _marginal(fit: Fit, blocks: tuple[Penalised, ...], found: Penalties, penalty: float) -> float:
    model = fit.model
    at = marginal(
        model.objective(penalty), fit.solution, model.estimated, blocks, found.values, exact=False
    )
    return np.nan if at is None else at.value


def _as_high(
    fit: Fit, solution: Solution, model: SelectionModel, found: Penalties, penalty: float
) -> bool:
    """Whether a search ended at a maximum that is no lower than this point."""
    status = fit.solution.status
    if not (status.converged or status.boundary):
        return False
    objective = smoothed(model, found.values, found.adjustment).objective(penalty)
    value = float(objective.evaluate(solution.params, 0).value[0])
    return fit.solution.value >= value - 1e-6


def _same(fit: Fit, solution: Solution) -> bool:
    """Whether a search ended at the maximum for which its penalties were estimated."""
    if len(fit.solution.params) != len(solution.params):
        return False
    move = (fit.solution.params - solution.params)[fit.model.estimated]
    information = -fit.solution.hessian[np.ix_(fit.model.estimated, fit.model.estimated)]
    return bool(move @ information @ move <= _SAME**2)
