"""Whether the model is specified well: tests of terms and of columns left out, and criteria."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.contrast import WaldTestResults

from ..design import FormulaSpec
from ..design.chunks import refuse_partitioned
from ..post import covariance
from ..post.tests import dependence_nested, designs_nested
from ..types import Floats
from .inference import check_likelihood

if TYPE_CHECKING:
    from .fitted import SelectionResults


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
    check_likelihood(self, "compare_lr_test")
    smaller = getattr(restricted, "_results", restricted)
    if not hasattr(smaller, "_fit_info"):
        raise ValueError(
            "restricted must be a fit of a selection model, got " + type(restricted).__name__
        )
    df = round(self.df_modelwc - smaller.df_modelwc)
    if df <= 0 or not _same_rows(self, smaller):
        raise ValueError("restricted must be a fit to the same observations with fewer parameters")
    check_likelihood(smaller, "compare_lr_test: restricted")
    if _rows_known(self) and _rows_known(smaller) and not is_nested(smaller, self):
        raise ValueError(
            "restricted must be a special case of this model (columns of both equations among "
            "its own, and the same or a narrower normalization); vuong_test compares others"
        )
    statistic = 2.0 * (self.llf - smaller.llf)
    return statistic, float(stats.chi2.sf(statistic, df)), df


def is_nested(small: SelectionResults, large: SelectionResults) -> bool:
    """Whether the model of ``small`` is that of ``large`` with restrictions, or the same.

    Both equations must lie in the span of the larger model's, with offsets that differ by
    something in that span, and so must the dependence.

    Parameters
    ----------
    small, large : SelectionResults
        Fits of the same rows in the same order, in memory.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(500, rng=0).data
    >>> fits = [
    ...     GreeneSelectionLogit.from_formula(
    ...         formula, "s ~ x1 + x2 + z", data, normalization="loading").fit()
    ...     for formula in ("y ~ x1", "y ~ x1 + x2")]
    >>> is_nested(*fits), is_nested(*fits[::-1])
    (True, False)
    """
    return dependence_nested(small._asked(), large._asked()) and designs_nested(
        small.model.design, large.model.design
    )


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


def score_test(self: SelectionResults, exog_extra: Any) -> tuple[float, float, int]:
    """Test whether columns that were left out belong in the outcome equation, without a refit.

    The score of their coefficients at zero, with the observed information.

    Parameters
    ----------
    exog_extra : array_like
        (n,) or (n, k) columns for the rows of the model, in their order.

    Returns
    -------
    statistic, pvalue, df
        As :meth:`compare_lr_test` of the larger model returns.
    """
    if self.cov_type in covariance.ROBUST or self._fit_info.penalty:
        raise ValueError(
            "score_test needs cov_type='nonrobust' and no penalty; fit with the columns in the "
            "formula and use wald_test"
        )
    check_likelihood(self, "score_test")
    model = self.model
    refuse_partitioned(model.design, "score_test")
    model.check_rows_at_hand()
    design = model.design
    extra = np.asarray(exog_extra, dtype=float)
    extra = extra[:, None] if extra.ndim == 1 else extra
    if extra.ndim != 2 or len(extra) != len(design.X) or not np.isfinite(extra).all():
        raise ValueError(
            f"exog_extra must be finite columns for the {len(design.X)} rows of the model, got "
            f"shape {np.shape(exog_extra)}"
        )
    p, k = model.k_outcome, extra.shape[1]
    names = (*design.outcome_names, *(f"extra_{j}" for j in range(k)))
    larger = model.rebuilt(
        replace(design, X=np.column_stack([design.X, extra]), outcome_names=names)
    )
    at = np.insert(np.asarray(self.params, dtype=float), [p] * k, 0.0)
    tested = np.arange(p, p + k)
    score = np.asarray(larger.score(at))
    inverse = covariance.invert(-np.asarray(larger.hessian(at)))
    statistic = float(score[tested] @ inverse[np.ix_(tested, tested)] @ score[tested])
    return statistic, float(stats.chi2.sf(statistic, k)), k


def wald_test_terms(
    self: SelectionResults,
    skip_single: bool = False,
    extra_constraints: Any = None,
    combine_terms: Any = None,
    scalar: bool = True,
) -> WaldTestResults:
    """Joint Wald tests of the terms of both equations.

    Terms of the selection equation have the prefix ``select_``. Those that are penalised are not
    among them; see :meth:`penalised_terms`.

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
    """Positions of the parameters of each term."""
    design, p = self.model.design, self.model.k_outcome
    shrunk = {name for term in design.penalised for name in term.names}

    def within(spec: FormulaSpec | None, names: tuple[str, ...]) -> dict[str, slice]:
        if spec is not None:
            return spec.term_slices
        return {name: slice(i, i + 1) for i, name in enumerate(names) if name not in shrunk}

    select = within(design.select_spec, design.select_names)
    return within(design.outcome_spec, design.outcome_names) | {
        f"select_{name}": slice(p + cut.start, p + cut.stop) for name, cut in select.items()
    }


def info_criteria(self: SelectionResults, crit: str, dk_params: float = 0) -> float:
    """AIC or BIC, with ``dk_params`` more parameters than the model has.

    Parameters
    ----------
    crit : {"aic", "bic"}
    dk_params : float
    """
    if crit not in ("aic", "bic"):
        raise ValueError(f"crit={crit!r} is unknown; use 'aic' or 'bic'")
    each = 2.0 if crit == "aic" else float(np.log(self.nobs))
    return float(getattr(self, crit)) + each * dk_params


def pred_table(self: SelectionResults, threshold: float = 0.5) -> Floats:
    """Count labelled rows by outcome (rows of the table) and prediction (columns), 0 before 1.

    The prediction is that P(y = 1 given s = 1) exceeds ``threshold``: labelled rows are compared
    with what the model says of labelled rows. Frequency weights count.
    """
    model = self.model
    refuse_partitioned(model.design, "pred_table")
    model.check_rows_at_hand()
    design = model.design
    seen = design.labelled
    said = np.asarray(self.predict(which="mean-selected"))[seen] > threshold
    weights = design.weights if design.weight_kind == "freq_weights" else None
    return np.histogram2d(
        design.y[seen], said, bins=2, range=[[0, 1], [0, 1]],
        weights=None if weights is None else weights[seen],
    )[0]  # fmt: skip
