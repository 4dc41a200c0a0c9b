"""Hypothesis tests of a fitted selection model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.contrast import WaldTestResults

from ..design import find_excluded
from ..design.chunks import SavedDesign
from ..kernel.forms import FreeForm, LoadingForm, ProbitForm
from ..optimize.binary import fit_independent
from ..optimize.solution import Solution, Status
from ..post import covariance, tests
from ..post.tests import ExclusionTest, IndependenceTest, is_nested

if TYPE_CHECKING:
    from .fitted import SelectionResults


def instrument(self: SelectionResults) -> ExclusionTest:
    """Strength of the variables that only the selection equation has; print it.

    A joint Wald test of their coefficients, from the fit and its covariance alone. Its
    ``verdict`` is "strong", "weak" (less than 10 per degree of freedom), "none" or "unknown".
    Where the fit has no covariance, the test is that of the selection equation fitted apart.
    """
    return self._summary_cache("instrument", self._instrument)  # outlives the data


def _instrument(self: SelectionResults) -> ExclusionTest:
    design = self.model.design.counted
    if design.nobs == 0 or isinstance(design, SavedDesign):
        return ExclusionTest((), np.nan, 0, np.nan, known=False)
    found = find_excluded(design.sketch)
    select = slice(self.model.k_outcome, self.model.k_outcome + self.model.k_select)
    gamma = np.asarray(self.params)[select]
    cov = np.asarray(self.cov_params_default)[select, select]
    if not np.isfinite(cov).all() and self._is_likelihood:
        gamma, cov = _selection_apart(self)
    return tests.exclusion(found.columns, found.directions, gamma, cov, offset=found.offset)


def _selection_apart(self: SelectionResults) -> tuple[Any, Any]:
    """Coefficients of the selection equation fitted apart, and their covariance."""
    p, apart = self.model.k_outcome, self.fit_info.independent
    gamma = apart.params[p:]
    if not apart.converged:
        return gamma, np.full((len(gamma), len(gamma)), np.nan)
    null = self.model.objective().with_form(LoadingForm())
    hessian = null.evaluate(np.append(apart.params, 0.0), 2).hessian[0].cpu().numpy()
    return gamma, covariance.invert(-hessian[p:-1, p:-1])


def test_independence(self: SelectionResults, method: str | None = None) -> IndependenceTest:
    """Test that selection is ignorable.

    Parameters
    ----------
    method : {"lr", "wald", "score"}, optional
        "lr" compares with the same model at rho = 0, "score" needs only the two equations
        fitted apart, "wald" is the estimate of athrho or the loading over its standard error.
        By default "lr"; with a robust covariance or a penalty "wald"; and "score" where neither
        rho nor the loading is estimated, where the fit is not at a maximum, and, robust, where
        sigma and rho are both estimated: athrho alone says nothing there.
    """
    robust = self.cov_type in covariance.ROBUST
    names = self.model.param_names
    estimated = names[-1] in ("athrho", "loading") and self.converged
    ridge = names[-2:] == ["lnsigma", "athrho"]
    if method is None:
        wald = robust or self.fit_info.penalty
        method = "score" if not estimated or (wald and ridge) else "wald" if wald else "lr"
    if method not in ("lr", "wald", "score"):
        raise ValueError(f"method={method!r} is unknown; use 'lr', 'wald' or 'score'")
    # A rho or a loading that ran to its bound was estimated, though it is not among the
    # parameters.
    ends = (Status.RHO_PLUS, Status.RHO_MINUS, Status.LOADING_INFINITE, Status.FLAT)
    ran_off = self.status in ends
    if method != "score" and not estimated and not (method == "lr" and ran_off):
        raise ValueError(
            f"method={method!r} needs rho or the loading estimated at a maximum; use 'score'"
        )
    if method == "wald" and ridge:
        raise ValueError(
            "method='wald' says nothing where sigma and rho are both estimated: athrho is "
            "hardly identified apart from sigma; use 'lr' or 'score'"
        )
    if method == "lr":
        _check_likelihood(self, "method='lr'")
        return tests.likelihood_ratio(self.llf, self._ll_ignorable())
    if method == "score":
        return tests.score(
            self.model.rows,
            self.fit_info.independent,
            probit=self.model.probit_outcome,
            meat=partial(_score_meat, self) if robust else None,
        )
    variance = float(np.asarray(self.cov_params_default)[-1, -1])
    return tests.wald(float(np.asarray(self.params)[-1]), variance)


def _ll_ignorable(self: SelectionResults) -> float:
    """Log-likelihood of the same model with rho = 0.

    Not always :attr:`llindep`: with sigma in the model the outcome's link at rho = 0 may be any
    from logit to probit, and a better link is no evidence of dependence.
    """
    kind, sigma, _ = self._asked()
    if self.model.probit_outcome or kind == "loading":
        return self.llindep

    def compute() -> float:
        if kind == "free" and sigma is not None:
            return self._maximum({"rho": 0.0, "sigma": sigma}).value
        probit = fit_independent(self.model.rows, probit=True).value
        if kind == "probit":
            return probit
        objective = self.model.objective().with_form(FreeForm(self.model.integration))
        return tests.free_without_dependence(objective, self.fit_info.independent, probit)

    return self._summary_cache("ignorable", compute)  # outlives the data


def _maximum(self: SelectionResults, normalization: Any) -> Solution:
    """Return the maximum of the same data under another normalization."""
    return self.model.sibling(normalization).maximum(self.fit_info.independent)


def _score_meat(self: SelectionResults, theta: Any) -> Any:
    form = ProbitForm() if self.model.probit_outcome else LoadingForm()
    meat = self._meat(self.model.objective().with_form(form), theta, self.cov_type)
    assert meat is not None
    return meat.matrix


def _check_likelihood(self: SelectionResults, what: str) -> None:
    """Refuse what needs a maximised likelihood where there is none."""
    robust = self.cov_type in covariance.ROBUST
    if robust or self.fit_info.penalty or not self.converged:
        raise ValueError(
            f"{what} needs a likelihood at its maximum: not valid with a robust covariance, "
            "sampling weights, a penalty or a fit that stopped early; use 'wald' or 'score'"
        )


def compare_lr_test(self: SelectionResults, restricted: Any) -> tuple[float, float, int]:
    """Likelihood ratio test against ``restricted``, a smaller fit of the same rows.

    The degrees of freedom are the parameters of this model less those of the restricted one,
    as they were asked for: a maximum on a face has a parameter less, and its model has not.

    Parameters
    ----------
    restricted : results
        Of a special case of this model.

    Returns
    -------
    statistic, pvalue, df
    """
    _check_likelihood(self, "compare_lr_test")
    smaller = getattr(restricted, "_results", restricted)
    if not hasattr(smaller, "fit_info"):
        raise ValueError(
            "restricted must be a fit of a selection model, got " + type(restricted).__name__
        )
    df = round(self.df_modelwc - smaller.df_modelwc)
    if df <= 0 or not _same_rows(self, smaller):
        raise ValueError("restricted must be a fit to the same observations with fewer parameters")
    _check_likelihood(smaller, "compare_lr_test: restricted")
    if _rows_known(self) and _rows_known(smaller) and not is_nested(smaller, self):
        raise ValueError(
            "restricted must be a special case of this model (columns of both equations among "
            "its own, and the same or a narrower normalization); vuong_test compares others"
        )
    statistic = 2.0 * (self.llf - smaller.llf)
    return statistic, float(stats.chi2.sf(statistic, df)), df


def _rows_known(self: SelectionResults) -> bool:
    return not self.model.in_partitions and self.model.design.nobs > 0


def _same_rows(self: SelectionResults, other: Any) -> bool:
    """Whether another fit has these labels on as many rows, as far as is known."""
    if other.nobs != self.nobs or other.nobs_selected != self.nobs_selected:
        return False
    if not (_rows_known(self) and _rows_known(other)):
        return True
    one, two = self.model.design, other.model.design
    return one.nobs == two.nobs and np.array_equal(one.y, two.y, equal_nan=True)


def wald_test_terms(
    self: SelectionResults,
    skip_single: bool = False,
    extra_constraints: Any = None,
    combine_terms: Any = None,
    scalar: bool = True,
) -> WaldTestResults:
    """Joint Wald tests of the terms of both equations.

    Terms of the selection equation have the prefix ``select_``.

    Parameters
    ----------
    skip_single : bool
        Leave out terms of one column.
    extra_constraints : list of (str, array), optional
        More hypotheses, each with its name.
    combine_terms : list of str, optional
        Test jointly the terms whose name contains the string.
    scalar : bool
        Statistics as numbers, not as arrays.
    """
    identity = np.eye(len(self.params))
    constraints = [
        (name, identity[columns])
        for name, columns in _terms(self).items()
        if not (skip_single and len(identity[columns]) == 1)
    ]
    for part in combine_terms or []:
        matching = [identity[cols] for name, cols in _terms(self).items() if part in name]
        if not matching:
            raise ValueError(f"combine_terms: no term contains {part!r}")
        constraints.append((part, np.vstack(matching)))
    constraints += list(extra_constraints or [])
    tests = [self.wald_test(constraint, scalar=scalar) for _, constraint in constraints]
    table = pd.DataFrame(
        [[test.statistic, test.pvalue, int(test.df_denom)] for test in tests],
        index=[name for name, _ in constraints],  # a combination may have a term's name
        columns=["statistic", "pvalue", "df_constraint"],
    )
    return WaldTestResults(None, "chi2", None, table=table)


def _terms(self: SelectionResults) -> dict[str, slice]:
    design, p = self.model.design, self.model.k_outcome
    terms: dict[str, slice] = {}
    if design.outcome_spec is not None:
        terms |= design.outcome_spec.term_slices
    else:
        terms |= {name: slice(i, i + 1) for i, name in enumerate(design.outcome_names)}
    select = (
        design.select_spec.term_slices
        if design.select_spec is not None
        else {name: slice(i, i + 1) for i, name in enumerate(design.select_names)}
    )
    for name, cut in select.items():
        terms[f"select_{name}"] = slice(p + cut.start, p + cut.stop)
    return terms
