"""Fits with penalised terms: penalties by the marginal likelihood, around the search of `fitting`.

The penalties are first those of the two equations apart, where they cost little. With them held the
maximum is searched as always, over all values of the dependence; from there penalties and
coefficients are moved to the maximum of the marginal likelihood of the joint model. Penalties and
maximum belong together, so both are done again until the search finds that maximum itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..kernel.rows import Factors
from ..optimize.binary import BinaryObjective
from ..optimize.maximize import as_optimizer, maximize
from ..optimize.objective import Objective
from ..optimize.penalties import Penalised, Penalties, choose, marginal, total_penalty
from ..optimize.solution import Solution
from ..results.fitted import Fit
from ..types import Floats

if TYPE_CHECKING:
    from .selection import SelectionModel

_MANY = 100  # levels
_ROUNDS = 4  # of a search and the penalties at its maximum
_SAME = 1e-3  # standard errors by which two maxima may differ
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


def smoothed(self: SelectionModel, penalties: Floats | None) -> SelectionModel:
    """Return the model with these penalties of its terms, or none yet; it shares the rows."""
    other = self.sibling(self.normalization)
    other._penalties = None if penalties is None else np.asarray(penalties, dtype=float)
    other._form_by_default = self._form_by_default
    if self._rows is not None:
        other._rows = replace(self._rows, smoothing=smoothing_of(other))
    return other


def smoothing_of(self: SelectionModel) -> Floats | None:
    """The precision of the terms' coefficients, (p + k, p + k); None without penalties."""
    if self._penalties is None:
        return None
    return total_penalty(self.blocks_of(), self._penalties, self.k_outcome + self.k_select)


def factors_of(self: SelectionModel) -> Factors:
    """Which columns of the two designs are indicators of the levels of a term.

    Only where they are many: sums by level are slower than products of a few columns.
    """
    terms = [term for term in self.design.penalised if term.kind == "re"]
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
    blocks = self.blocks_of()
    _check_weights(self)
    if self._penalties is not None:
        return self._fit_searched(start_params, "newton", penalty, options)
    values = np.array([1.0 if block.fixed is None else block.fixed for block in blocks])
    estimated = np.array([block.fixed is None for block in blocks])
    nothing = np.zeros(len(values), dtype=bool)
    found = Penalties(values, estimated, nothing, np.nan, 0, not estimated.any())

    def search() -> Fit:
        return smoothed(self, values)._fit_searched(start_params, "newton", penalty, options)

    if not estimated.any():
        fit = search()
        marginal_value = _marginal(fit, blocks, found, penalty)
        return replace(fit, penalties=replace(found, marginal=marginal_value))
    values, coef = _apart(self, values, penalty)
    at = _climbed(smoothed(self, values), coef, penalty, options)
    for _ in range(_ROUNDS):
        if at is None:
            fit = search()
            if not (fit.solution.status.converged or fit.solution.status.boundary):
                break
            at = cast("SelectionModel", fit.model), fit.solution
        solution, found = choose(
            at[0].objective(penalty), at[1], at[0].estimated, blocks, values,
            _climber(at[0], options),
        )  # fmt: skip
        values = found.values
        fit = search()
        if not _as_high(fit, solution):  # no fit is below a point that was seen
            start = solution.params[at[0].estimated]
            fit = smoothed(at[0], values)._fit_searched(start, "newton", penalty, options)
        if _same(fit, solution):
            return replace(fit, penalties=found)
        at = cast("SelectionModel", fit.model), fit.solution
    return replace(fit, penalties=replace(found, values=values, converged=False))


def _climbed(
    self: SelectionModel, coef: Floats, penalty: float, options: dict[str, Any]
) -> tuple[SelectionModel, Solution] | None:
    """The maximum near independence, where the search will most likely end too.

    None where that is not on the way: sigma and rho are both free, or a bound is met.
    """
    spec, count = self.parametrized, int(self.parametrized.free.sum())
    if count > 1 or (count == 1 and spec.form.at_corr(np.zeros(1)) is None):
        return None
    start = np.append(coef, spec.values(np.zeros(count)))
    solution = _climber(self, options)(self.objective(penalty), start)
    return (self, solution) if solution.status.converged else None


def _climber(
    self: SelectionModel, options: dict[str, Any]
) -> Callable[[Objective, Floats], Solution]:
    limits = {name: options[name] for name in ("maxiter", "gtol") if name in options}
    return lambda objective, start: maximize(objective, start, free=self.estimated, **limits)


def _check_weights(self: SelectionModel) -> None:
    """Refuse sampling weights that make the rows count as others than they are."""
    design = self.design
    mean = float(design.row_weights.mean())
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


def _as_high(fit: Fit, solution: Solution) -> bool:
    """Whether a search ended at a maximum that is no lower than this one."""
    status = fit.solution.status
    ended = status.converged or status.boundary
    return ended and fit.solution.value >= solution.value - 1e-6


def _same(fit: Fit, solution: Solution) -> bool:
    """Whether a search ended at the maximum for which its penalties were estimated."""
    if len(fit.solution.params) != len(solution.params):
        return False
    move = (fit.solution.params - solution.params)[fit.model.estimated]
    information = -fit.solution.hessian[np.ix_(fit.model.estimated, fit.model.estimated)]
    return bool(move @ information @ move <= _SAME**2)
