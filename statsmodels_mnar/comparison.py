"""Several fits of the same data side by side, in a table and in a picture; tests between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from scipy.stats import norm

from .baselines import BaselineResults, IPWLogit
from .design import Design
from .kernel.forms import single_form
from .kernel.links import LOGIT, Link
from .models import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection
from .post import tests
from .post.covariance import influence_covariance, invert, param_influence
from .post.dependence import ExclusionTest
from .post.prediction import Designs, Quantity, predict_average
from .post.tests import Correction, HausmanTest, VuongTest
from .results.drawing import draw_intervals, legend_above
from .results.fitted import SelectionResults
from .results.specification import is_nested
from .tools import check_alpha
from .types import Floats

__all__ = [
    "Comparison",
    "compare",
    "exclusion_test",
    "hausman_test",
    "plot_coefficients",
    "vuong_test",
]


def unwrapped(results: Any) -> Any:
    """Results without the wrapper that puts names on them."""
    return getattr(results, "_results", results)


def independent_mean(beta: Any, k_select: int, link: Link = LOGIT) -> Quantity:
    """P(y = 1) of a plain binary regression: that of a selection model without dependence."""
    form = single_form(link)
    fixed = np.zeros(1, dtype=bool)
    return Quantity(form, "mean", np.asarray(beta, float), np.zeros(k_select), np.zeros(1), fixed)


def average_effects(
    host: SelectionResults, quantity: Quantity, variables: list[str] | None
) -> tuple[list[str], Floats, Floats]:
    """Names, average effects over all rows and their Jacobian."""
    asked = [quantity]
    found = host._by_column(asked) if variables is None else host._by_data(asked, variables)
    names, [(values, jacobian)] = found
    assert jacobian is not None
    return names, values, jacobian


# -- several fits of the same data side by side ----------------------------------------------------


MODELS = ("naive", "ipw", "probit", "greene", "biascorr")


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Fits of the same rows side by side; what :func:`compare` returns.

    Attributes
    ----------
    results : dict
        The fits by name; those that could be fitted.
    coefficients : DataFrame
        Outcome equation; columns (model, coef or std err).
    margeff : DataFrame
        Average effects on P(y = 1) over all rows; columns (model, AME or std err).
    fit : DataFrame
        One row for each model, also for those that failed.

    Examples
    --------
    >>> from statsmodels_mnar import compare
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(1_000, rng=1)
    >>> found = compare(sim.formula, sim.select_formula, sim.data, ("naive", "probit"))
    >>> list(found.results)
    ['naive', 'probit']
    """

    results: dict[str, Any]  # by name; those that could be fitted
    coefficients: pd.DataFrame  # outcome equation; columns (model, coef | std err)
    margeff: pd.DataFrame  # average effects on P(y = 1), all rows; columns (model, AME | std err)
    fit: pd.DataFrame  # one row for each model, also for those that failed

    def summary(self) -> str:
        """The three tables as text, standard errors in parentheses."""
        parts = (
            ("Outcome coefficients (logit and probit scales differ)", _cells(self.coefficients)),
            ("Average marginal effects on P(y = 1), all rows", _cells(self.margeff)),
            ("Fits", self.fit.T.apply(_texts, axis=1)),
        )
        return "\n\n".join(f"{title}\n{table.to_string()}" for title, table in parts)

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def compare(
    formula: Any,
    select_formula: str | None = None,
    data: Any = None,
    models: Iterable[str] = MODELS,
    *,
    variables: Iterable[str] | None = None,
    normalization: Any = None,
    cov_type: str | None = None,
    cov_kwds: dict[str, Any] | None = None,
    env: Any = 0,
    **model_options: Any,
) -> Comparison:
    """Coefficients, average marginal effects and prevalences of several methods.

    Parameters
    ----------
    formula : str, sequence or dict
        Outcome formula; or fitted results of selection models and baselines, of the same rows,
        under the names of a dict or of their classes.
    select_formula, data
        As in ``from_formula``; only with a formula.
    models : sequence of str
        What to fit: "naive" (logit of the labelled rows), "ipw", "probit" (ProbitSelection),
        "greene" and "biascorr".
    variables : list of str, optional
        Variables of the data whose effects are shown, see ``get_margeff``; by default the columns
        of the outcome design.
    normalization : optional
        Of "greene"; by default "loading".
    cov_type, cov_kwds : optional
        Of "naive", "probit" and "greene"; the others keep their "stacked" default.
    env, **model_options
        As in ``from_formula``: subset, missing, offsets and weights.

    Returns
    -------
    Comparison
        With the tables ``coefficients``, ``margeff`` and ``fit``, and the ``results``; print it. A
        model that could not be fitted has its reason in the column ``status`` of ``fit``.

    Notes
    -----
    Effects and prevalences (means of P(y = 1)) are over all rows, labelled or not, for every
    method: their numbers can be compared, those of coefficients on different scales cannot.

    Examples
    --------
    >>> from statsmodels_mnar import compare
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(2_000, rng=0).data
    >>> table = compare("y ~ x1 + x2", "s ~ x1 + x2 + z", data, ["naive", "probit"])
    >>> table.margeff["probit"].index.tolist()
    ['x1', 'x2']
    """
    if isinstance(formula, str):
        options = {"cov_type": cov_type, "cov_kwds": cov_kwds}
        env = env + 2 if isinstance(env, int) and env >= 0 else env  # past here and _fit
        chosen = tuple(models)
        fitted, failed = _fit(
            (formula, select_formula, data), chosen, normalization, options,
            env=env, **model_options,
        )  # fmt: skip
        hosts = [unwrapped(fitted["naive"])]
        fitted = {name: fitted[name] for name in chosen if name in fitted}
        if not fitted:
            raise ValueError(f"no model could be fitted: {failed}")
        return _arrange(fitted, failed, hosts, variables)
    if select_formula is not None or data is not None or model_options:
        raise ValueError("formula: with fitted results give neither formulas, data nor options")
    fitted = _named(formula)
    hosts = [r for r in map(unwrapped, fitted.values()) if isinstance(r, SelectionResults)]
    return _arrange(fitted, {}, hosts, variables)


def _fit(
    formulas: tuple[Any, ...],
    models: tuple[str, ...],
    normalization: Any,
    fit_options: dict[str, Any],
    **model_options: Any,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Results and reasons for failure, by name; the naive fit is always there."""
    unknown = set(models) - set(MODELS)
    if unknown or not models:
        raise ValueError(f"models={list(models)!r} must be some of {list(MODELS)}")
    extras = {"offset", "offset_select", "freq_weights", "prob_weights"} & set(model_options)
    if "ipw" in models and extras:
        raise ValueError(
            f"models: 'ipw' does not take {sorted(extras)}; leave it out, as in "
            f"models={[name for name in models if name != 'ipw']!r}"
        )
    kinds: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
        "naive": (GreeneSelectionLogit, {"normalization": "independent"}, fit_options),
        "ipw": (IPWLogit, {}, {}),
        "probit": (ProbitSelection, {}, fit_options),
        "greene": (GreeneSelectionLogit, {"normalization": normalization}, fit_options),
        "biascorr": (BiasCorrLogit, {}, {}),
    }
    fitted, failed = {}, {}
    for name in dict.fromkeys(("naive", *models)):
        kind, own, how = kinds[name]
        model = kind.from_formula(*formulas, **own, **model_options)
        try:
            fitted[name] = model.fit(**how)
        except ValueError as error:  # a model that cannot be fitted to these data
            if name == "naive":
                raise
            failed[name] = f"{type(error).__name__}: {error}"
    return fitted, failed


def _named(results: Any) -> dict[str, Any]:
    """Fitted results by name."""
    if isinstance(results, Mapping):
        found = {str(name): value for name, value in results.items()}
    elif not isinstance(results, Iterable):
        raise ValueError(
            f"formula={results!r} must be an outcome formula, or a sequence or dict of fitted "
            "results"
        )
    else:
        found = {}
        for value in results:
            name = base = type(getattr(value, "model", value)).__name__
            for i in range(2, len(found) + 2):
                if name not in found:
                    break
                name = f"{base} {i}"
            found[name] = value
    for name, value in found.items():
        if not isinstance(unwrapped(value), SelectionResults | BaselineResults):
            raise ValueError(
                f"{name}: compare takes results of this package's models and baselines, got "
                f"{type(value).__name__}"
            )
    return found


def _arrange(
    fitted: dict[str, Any],
    failed: dict[str, str],
    hosts: list[SelectionResults],
    variables: Iterable[str] | None,
) -> Comparison:
    """The tables. Baselines read the data through a selection model's fit, one of ``hosts``."""
    chosen = None if variables is None else list(variables)
    coefficients, effects, rows = {}, {}, {}
    first = next(iter(fitted.values())).model.design
    for name, results in ((name, unwrapped(value)) for name, value in fitted.items()):
        design = results.model.design
        if design.nobs == 0:
            raise ValueError(f"{name}: the data have been removed from this fit; fit it again")
        if not _same_rows(design, first):
            raise ValueError(f"{name} was fitted to other rows than the first of the results")
        host, quantity, cov = _mean_of(results, name, hosts)
        p = len(design.outcome_names)
        params = np.asarray(results.params, dtype=float)[:p]
        coefficients[name] = _column("coef", params, cov[:p, :p], list(design.outcome_names))
        names, values, jacobian = average_effects(host, quantity, chosen)
        effects[name] = _column("AME", values, jacobian @ cov @ jacobian.T, names)
        rows[name] = _fit_row(results, quantity, cov)
    fit = pd.DataFrame.from_dict(rows, orient="index")
    for name, reason in failed.items():
        fit.loc[name, "status"] = f"failed: {reason}"
    return Comparison(fitted, pd.concat(coefficients, axis=1), pd.concat(effects, axis=1), fit)


def _same_rows(one: Design, other: Design) -> bool:
    """Whether fits have the same rows, by labels and outcomes; an oracle knows more of these."""
    if not one.index.equals(other.index):
        return False
    both = one.labelled & other.labelled
    return np.array_equal(one.y[both], other.y[both])


def _mean_of(
    results: Any, name: str, hosts: list[SelectionResults]
) -> tuple[SelectionResults, Quantity, Floats]:
    """P(y = 1) of a fit as a function of the designs, with the covariance of its parameters."""
    if isinstance(results, SelectionResults):
        quantity = results.model.quantity(results.params, "mean")
        return results, quantity, np.asarray(results.cov_params_default)
    terms = results.model.design.outcome_names
    for host in hosts:
        if host.model.design.outcome_names == terms:
            k = host.model.k_select
            quantity = independent_mean(results.params, k)
            return host, quantity, np.pad(np.asarray(results.cov_params()), (0, k))
    raise ValueError(
        f"{name}: to compare a baseline, add a selection model's fit with the same outcome "
        f"equation ({', '.join(terms)})"
    )


def _column(name: str, values: Floats, cov: Floats, index: list[str]) -> pd.DataFrame:
    return pd.DataFrame({name: values, "std err": np.sqrt(np.diag(cov))}, index=index)


def _fit_row(results: Any, quantity: Quantity, cov: Floats) -> dict[str, Any]:
    design = results.model.design
    weights = design.row_weights
    at = Designs(design.X, None, design.offset)
    prevalence = predict_average(quantity, at, cov, weights)
    likelihood = getattr(results, "_is_likelihood", False)
    return {
        "prevalence": prevalence.predicted[0],
        "prevalence std err": prevalence.se[0],
        "error_corr": getattr(results, "error_corr", np.nan),
        "llf": results.llf if likelihood else np.nan,
        "aic": results.aic if likelihood else np.nan,
        "bic": results.bic if likelihood else np.nan,
        "nobs": results.nobs,
        "nobs_selected": results.nobs_selected,
        "status": results.status.name.lower()
        if isinstance(results, SelectionResults)
        else ("converged" if results.converged else "not converged"),
    }


def _cells(table: pd.DataFrame) -> pd.DataFrame:
    """Estimates with standard errors in parentheses, one column for each model."""
    found = {}
    for name in table.columns.unique(0):
        values, errors = table[name].to_numpy().T
        found[name] = [
            "" if np.isnan(v) else f"{v:.4f} ({e:.4f})" for v, e in zip(values, errors, strict=True)
        ]
    return pd.DataFrame(found, index=table.index)


def _texts(row: pd.Series) -> pd.Series:
    """A row of the table of fits as text; empty where there is no such number."""
    if row.name == "status":
        return row.map(lambda text: text if len(text) <= 24 else f"{text[:21]}...")
    digits = 0 if str(row.name).startswith("nobs") else 4
    return row.map(lambda value: "" if pd.isna(value) else f"{value:,.{digits}f}")


# -- several fits in one picture -------------------------------------------------------------------


Show = Literal["margeff", "coefficients"]

_CONSTANTS = ("Intercept", "const")
_LABELS = {"margeff": "average marginal effect on P(y = 1)", "coefficients": "coefficient"}


def plot_coefficients(
    models: Any,
    show: Show = "coefficients",
    *,
    variables: Iterable[str] | None = None,
    alpha: float = 0.05,
    ax: Any = None,
) -> Any:
    """Outcome coefficients, or average marginal effects, with intervals across models.

    Parameters
    ----------
    models : Comparison, dict or sequence
        What :func:`compare` returned, or fitted results of the same rows that it takes.
    show : {"coefficients", "margeff"}
        Coefficients of logit and probit are on different scales, and so are those of selection
        logits with different dependence; effects can be compared.
    variables : list of str, optional
        Rows to show, in this order; by default all but the constant.
    alpha : float
        Of the normal intervals.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from statsmodels_mnar import compare
    >>> from statsmodels_mnar.comparison import plot_coefficients
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(2_000, rng=0).data
    >>> fits = compare("y ~ x1 + x2", "s ~ x1 + x2 + z", data, ["naive", "probit"])
    >>> ax = plot_coefficients(fits, "margeff")
    >>> ax.get_legend_handles_labels()[1]
    ['naive', 'probit']
    """
    if show not in get_args(Show):
        raise ValueError(f"show={show!r} is unknown; use one of {list(get_args(Show))}")
    check_alpha(alpha)
    found = models if isinstance(models, Comparison) else compare(models)
    table: pd.DataFrame = getattr(found, show)
    if variables is None:
        chosen = [name for name in table.index if name not in _CONSTANTS]
    else:
        chosen = [variables] if isinstance(variables, str) else list(variables)
    unknown = [name for name in chosen if name not in table.index]
    if unknown or not chosen:
        raise ValueError(f"variables={chosen!r} must be some of {list(table.index)}")
    z = norm.ppf(1.0 - alpha / 2.0)
    tables = {}
    for name in table.columns.unique(0):
        estimate, error = (table[name].loc[chosen].iloc[:, j] for j in (0, 1))
        tables[name] = pd.DataFrame(
            {
                "estimate": estimate,
                "ci_lower": estimate - z * error,
                "ci_upper": estimate + z * error,
            }
        )
    ax = draw_intervals(tables, ax)
    ax.set_xlabel(f"{_LABELS[show]}, {1 - alpha:.0%} intervals")
    legend_above(ax)
    return ax


# -- tests between fits ----------------------------------------------------------------------------


def exclusion_test(results: Any) -> ExclusionTest:
    """Do the variables that only the selection equation has move selection?

    A joint Wald test of the columns of the selection design that lie outside the span of the
    outcome design. Without such columns, or where they are weak, the dependence of the two
    equations is identified by functional form alone. It is ``results.instrument``, and an error
    where there are no such columns.

    Parameters
    ----------
    results : SelectionResults

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.comparison import exclusion_test
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(2_000, rng=0).data
    >>> model = GreeneSelectionLogit.from_formula(
    ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", data)
    >>> exclusion_test(model.fit()).columns
    ('z',)
    """
    results = _selection(results, "exclusion_test")
    found = results.instrument
    if not found.columns:
        raise ValueError(
            "exclusion_test: the selection equation has no variable that the outcome equation lacks"
        )
    return found


def hausman_test(results: Any, variables: Iterable[str] | None = None) -> HausmanTest:
    """Does the correction for selection change the average marginal effects?

    Contrasts the effects on P(y = 1) over all rows of a selection model with those of the logit
    (ProbitSelection: probit) of the labelled rows. Effects, because the scale of logit coefficients
    changes with the model.

    Parameters
    ----------
    results : SelectionResults
        Of GreeneSelectionLogit or ProbitSelection.
    variables : list of str, optional
        As in ``get_margeff``.

    Returns
    -------
    HausmanTest
        ``statistic``, ``pvalue`` and the table ``contrasts`` of the single effects; print it.

    Notes
    -----
    The variance of the contrasts is that of the difference of the two estimators' influence
    functions, valid also where the corrected one is not efficient (robust covariances, clusters,
    sampling weights). One dependence parameter separates the two models, so that under the null
    all contrasts are multiples of its estimate to first order: the test has one degree of freedom,
    in the direction in which that parameter moves the effects.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.comparison import hausman_test
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(5_000, rng=0).data
    >>> model = GreeneSelectionLogit.from_formula(
    ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", data)
    >>> hausman_test(model.fit()).df
    1
    """
    results = _selection(results, "hausman_test")
    if not results._is_likelihood:
        raise ValueError("hausman_test: BiasCorr does not estimate the population's effects")
    if results._fit_info.penalty or results._has_terms or not results.converged:
        raise ValueError("hausman_test needs a fit at its maximum without a penalty")
    parts = effect_contrast(results, None if variables is None else list(variables))
    cov = _covariance(results, parts.influence)
    return tests.contrast(parts.names, parts.naive, parts.corrected, cov, parts.direction)


@dataclass(frozen=True, slots=True, eq=False)
class EffectContrast:
    """Effects of the naive and the corrected fit, and what the rows do to their difference."""

    names: tuple[str, ...]  # V
    naive: Floats  # (V,)
    corrected: Floats  # (V,)
    influence: Floats  # (n, V) of the rows on corrected - naive
    direction: Floats  # (V,) in which they differ under weak dependence, by precision


def effect_contrast(results: SelectionResults, variables: list[str] | None) -> EffectContrast:
    """What :func:`hausman_test` is made of."""
    model = results.model
    design, p = model.design, model.k_outcome
    apart = np.append(results._fit_info.independent.params, 0.0)
    null = model.objective().with_form(single_form(model.link))
    at = null.evaluate(apart, 2)
    assert at.hessian is not None
    hessian = at.hessian[0].cpu().numpy()
    scores = null.row_scores(apart).cpu().numpy()[:, :p]
    scores = scores if design.weights is None else design.weights[:, None] * scores
    # How the outcome coefficients move with the dependence parameter, at independence.
    shift = -(invert(hessian[:-1, :-1]) @ hessian[:-1, -1])[:p]

    names, corrected, slopes = average_effects(
        results, model.quantity(results.params, "mean"), variables
    )
    if not names:
        raise ValueError(
            "hausman_test: the outcome equation has no variable but its constant, so that there is "
            "no effect to contrast; test_independence() needs none"
        )
    naive_mean = independent_mean(apart[:p], model.k_select, model.link)
    _, naive, naive_slopes = average_effects(results, naive_mean, variables)
    naive_slopes = naive_slopes[:, :p]
    naive_influence = param_influence(hessian[:p, :p], scores) @ naive_slopes.T
    return EffectContrast(
        tuple(names),
        naive,
        corrected,
        results._param_influence() @ slopes.T - naive_influence,
        # P(y = 1) itself does not change with the dependence parameter there, to first order.
        naive_slopes @ shift / np.diag(_covariance(results, naive_influence)),
    )


def _covariance(results: SelectionResults, influence: Floats) -> Floats:
    """Return the covariance of estimates from the rows' influence on them."""
    design = results.model.design
    counts = design.weights if design.weight_kind == "freq_weights" else None
    return influence_covariance(influence, counts, results._clusters("hausman_test"))


def vuong_test(first: Any, second: Any, correction: Correction = "none") -> VuongTest:
    """Which of two non-nested models is nearer to the truth, such as logit and probit selection?

    Parameters
    ----------
    first, second : SelectionResults
        Fits of the same rows, neither a special case of the other; positive statistics favour the
        first.
    correction : {"none", "aic", "bic"}
        For different numbers of parameters.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit, ProbitSelection
    >>> from statsmodels_mnar.comparison import vuong_test
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> simulated = simulate_greene(2_000, rng=0)
    >>> formulas = simulated.formula, simulated.select_formula, simulated.data
    >>> logit = GreeneSelectionLogit.from_formula(*formulas).fit()
    >>> vuong_test(logit, ProbitSelection.from_formula(*formulas).fit()).favoured is None
    True
    """
    fits = [_selection(results, "vuong_test") for results in (first, second)]
    for results in fits:
        penalised = results._fit_info.penalty or results._has_terms
        if not results._is_likelihood or penalised or not results.converged:
            raise ValueError(
                "vuong_test needs two likelihoods at their maxima: no BiasCorr, no penalty, no fit "
                "that stopped early"
            )
    one, two = (results.model.design for results in fits)
    if one.nobs != two.nobs or not np.array_equal(one.y, two.y, equal_nan=True):
        raise ValueError("vuong_test needs two fits of the same rows")
    inside = [is_nested(*fits), is_nested(*fits[::-1])]
    if inside[0] != inside[1]:
        place, other = ("first", "second") if inside[0] else ("second", "first")
        raise ValueError(
            f"vuong_test is for models of which none is a special case of the other; the {place} "
            f"is one of the {other}, and its statistic is not normal then. Use "
            f"{other}.compare_lr_test({place})"
        )
    values = [
        results.model.objective().row_values(results.model.expand(results.params))[0]
        for results in fits
    ]
    return tests.vuong(
        values[0].cpu().numpy(),
        values[1].cpu().numpy(),
        (round(fits[0].df_modelwc), round(fits[1].df_modelwc)),
        counts=one.weights if one.weight_kind == "freq_weights" else None,
        sampling=one.weights if one.weight_kind == "prob_weights" else None,
        correction=correction,
        names=(type(fits[0].model).__name__, type(fits[1].model).__name__),
    )


def _selection(results: Any, name: str) -> SelectionResults:
    results = unwrapped(results)
    if not isinstance(results, SelectionResults):
        raise ValueError(f"{name} takes results of a selection model, got {type(results).__name__}")
    results.model.check_rows_at_hand()
    return results
