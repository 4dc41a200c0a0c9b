"""Tables of a fit: data frames first, text second."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.iolib.summary import Summary, summary_params
from statsmodels.iolib.summary2 import Summary as Summary2
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_params

from ..kernel.integration import Quadrature
from ..kernel.links import PROBIT
from ..optimize.solution import Status
from ..post.dependence import IndependenceTest, by_factor
from ..tools import EscapedSummary2, SectionedSummary
from . import shrinkage
from .inference import FEW, widened, within_one_cluster

if TYPE_CHECKING:
    from .fitted import SelectionResults


_WIDTH = 78
_PROFILED = "profile intervals"
_WALD = "Standard errors are Wald's; conf_int(interval='wald') gives its intervals."
_NOTABLY = 1.02  # times the chi-squared quantile: less changes no printed digit that matters


def tidy(self: SelectionResults, alpha: float = 0.05) -> pd.DataFrame:
    """One row for each parameter, with intervals at level 1 - ``alpha``.

    Those of penalised terms are left out; see :meth:`penalised_terms`.
    """
    names = self.model.param_names
    interval = np.asarray(self.conf_int(alpha=alpha))
    table = pd.DataFrame(
        {
            "equation": _equations(self),
            "term": _terms(self, names),
            "estimate": np.asarray(self.params),
            "std_error": np.asarray(self.bse),
            "statistic": np.asarray(self.tvalues),
            "p_value": np.asarray(self.pvalues),
            "conf_low": interval[:, 0],
            "conf_high": interval[:, 1],
        },
        index=pd.Index(names, name="parameter"),
    )
    if not self._is_likelihood:  # whose dependence is not tested against zero
        table.loc[table["equation"] == "dependence", ["statistic", "p_value"]] = np.nan
    return table[_ordinary(self)]


def _ordinary(results: SelectionResults) -> NDArray[np.bool_]:
    """(P,) whether a parameter is none of a penalised term."""
    if results._has_terms:
        found: NDArray[np.bool_] = shrinkage.ordinary(results)
        return found
    return np.ones(len(results.params), dtype=bool)


def glance(self: SelectionResults) -> pd.DataFrame:
    """One row for the whole fit."""
    row: dict[str, Any] = {
        "nobs": self.nobs,
        "nobs_selected": self.nobs_selected,
        "eta": self.eta,
        **self._criteria(),
        "sigma": self.sigma,
        "rho": self.rho,
        "error_corr": self.error_corr,
        "status": self.status.name.lower(),
        "converged": self.converged,
        "cov_type": self.cov_type,
    }
    return pd.DataFrame([row], index=[type(self.model).__name__])


def _criteria(self: SelectionResults) -> dict[str, float]:
    """What ``glance`` says of the fit."""
    names = ("llf", "llindep", "aic", "bic", "prsquared")
    return {name: getattr(self, name) for name in names}


def _terms(results: SelectionResults, names: list[str]) -> list[str]:
    """Names without the prefix of the selection equation."""
    equations = zip(_equations(results), names, strict=True)
    return [n.removeprefix("select_") if part == "select" else n for part, n in equations]


def _equations(results: SelectionResults) -> list[str]:
    model = results.model
    rest = len(results.params) - model.n_coef
    return ["outcome"] * model.k_outcome + ["select"] * model.k_select + ["dependence"] * rest


def notes(results: SelectionResults) -> list[str]:
    """What a reader of the table must know; empty where there is nothing to say."""
    found = []
    status = results.status
    if status.boundary:
        found.append(_boundary_note(results))
    elif not status.converged:
        found.append(f"{_sentence(status.value)}.")
    if results.accuracy is not None and results.accuracy.note:
        found.append(results.accuracy.note)
    if results._scale_note:
        found.append(results._scale_note)
    if results.weak:
        found.append(_weak_note(results))
    elif results._by_profile(None):
        few = results.nobs_selected < FEW
        found.append(
            f"{'Few rows are labelled' if few else 'The likelihood is skewed in error_corr'}: "
            f"{_profiled_what(results)} are those of the profile likelihood."
            f"{_widened_cut(results)} {_WALD}"
        )
    if status is Status.STOPPED:
        found.append("Standard errors are not defined: the estimates are not at a maximum.")
    elif np.isnan(results.bse).any():
        found.append("There are no standard errors: the information is not positive definite here.")
    return found + results._penalty_notes() + results._own_notes()


def _penalty_notes(self: SelectionResults) -> list[str]:
    """What the foot of the summary says of a ridge penalty."""
    found = []
    if self._has_terms:
        found = shrinkage.notes(self)
    if not self._fit_info.penalty:
        return found
    return [
        *found,
        f"Ridge penalty alpha = {self._fit_info.penalty:g}: the estimates are shrunk, and the "
        "standard errors treat the penalty as fixed.",
    ]


def _own_notes(self: SelectionResults) -> list[str]:
    """Notes of a subclass for the foot of the summary."""
    found = []
    alone = within_one_cluster(self)
    if alone:
        found.append(
            "Each of these columns differs from zero in one cluster only: "
            f"{', '.join(by_factor(alone))}. Their clustered standard errors are far too small and "
            "must not be used; cluster by another variable."
        )
    if self._sampling:
        found.append(
            "Sampling weights: log-likelihoods and criteria are those of a pseudo-likelihood."
        )
    return found


def _weak_note(results: SelectionResults) -> str:
    why = f"{_sentence('; '.join(results.weak))}."
    if not results._by_profile(None):
        return (
            f"{why} The intervals are Wald's and may be too short. interval='profile' gives those "
            "that hold; with so many rows it is not done without being asked for."
        )
    sets = " and ".join(f"[{low:.2f}, {high:.2f}]" for low, high in results._across().pieces())
    return (
        f"{why} A Wald interval would not hold: {_profiled_what(results)} are those over every "
        f"error correlation that the likelihood supports (95% set {sets})."
        f"{_widened_cut(results)} {_WALD}"
    )


def _widened_cut(results: SelectionResults) -> str:
    """Why the dependence's interval and P-value are not those of the likelihood ratio test."""
    factor = widened(results)
    if factor < _NOTABLY:
        return ""
    return (
        f" With {results.nobs_selected:,.0f} labels those of the dependence take "
        f"{factor:.2f} times the chi-squared quantile of the likelihood ratio test."
    )


def _profiled_what(results: SelectionResults) -> str:
    if results._two_dependence_parameters():
        return "intervals of probabilities, effects and error_corr"
    return "intervals and P-values"


def _boundary_note(results: SelectionResults) -> str:
    status, kind = results.status, results.model.parametrized.kind
    if status is Status.LOADING_INFINITE:
        return (
            f"{_sentence(status.value)}: the errors are perfectly correlated. The loading is held "
            f"at {results.sigma:g}, and the outcome coefficients grow with it: read their signs "
            "and ratios, get_margeff() and get_prediction(). ProbitSelection has coefficients on "
            "a scale that stays finite."
        )
    if status is Status.FLAT:
        return (
            f"{_sentence(status.value)}. It is held at an error correlation of "
            f"{results.error_corr:.3f}, and the standard errors are given that. See "
            "sensitivity(error_corr=...) for others."
        )
    if results.model.link is PROBIT:
        return f"{_sentence(status.value)}. It is held at {results.rho:.4f}."
    if not results.model.parametrized.free.any() and kind == "loading" and results.sigma > 0:
        cap = abs(results.error_corr)
        return (
            f"{_sentence(status.value)}. With sigma fixed at {results.sigma:g} the error "
            f"correlation cannot exceed {cap:.3f} in size; the data ask for more. Estimates and "
            "standard errors are those on the boundary. Use normalization='free' or 'loading'."
        )
    where = {
        "loading": "the loading form, where loading = rho * sigma",
        "probit": "the probit limit: outcome coefficients are on the probit scale",
        "free": f"a sigma held at {results.sigma:g}, close to that boundary",
    }[kind]
    if results.model.normalization == "independent":
        where = "independent equations"
    return (
        f"{_sentence(status.value)}. The maximum lies there, which is common and not a failure: "
        f"estimates and standard errors are those of {where}."
    )


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _integration(results: SelectionResults) -> str:
    integration = results.model.integration
    if results.model.parametrized.kind != "free":
        return "Gauss-Legendre"
    if isinstance(integration, Quadrature):
        return integration.rule
    return f"{integration.n_draws} {integration.kind} draws"


def _normalization(results: SelectionResults) -> str:
    normalization, asked = results.model.normalization, results._fit_info.asked
    if results.status.boundary and isinstance(asked, str) and asked != "free":
        return asked
    if isinstance(normalization, str):
        return f"free, face {normalization}" if results.status.boundary else normalization
    return ", ".join(f"{name} = {value:g}" for name, value in normalization.items())


def _status(results: SelectionResults) -> str:
    return {
        Status.CONVERGED: "converged",
        Status.RHO_PLUS: "boundary, rho = +1",
        Status.RHO_MINUS: "boundary, rho = -1",
        Status.SIGMA_ZERO: "boundary, sigma = 0",
        Status.SIGMA_INFINITE: "boundary, sigma = inf",
        Status.LOADING_INFINITE: "boundary, loading = inf",
        Status.FLAT: "flat in the dependence",
        Status.STOPPED: "stopped early",
    }.get(results.status, "not converged")


def _header(results: SelectionResults) -> tuple[list[Any], list[Any]]:
    model = results.model
    left = [
        ("Dep. Variable:", None),
        ("Selection:", [model.design.select_name]),
        ("Model:", [type(model).__name__]),
        ("Method:", [f"{results._estimator}, {results._fit_info.method}"]),
        ("Normalization:", [_normalization(results)]),
        ("Integration:", [_integration(results)]),
        ("Covariance Type:", [results.cov_type]),
        ("Status:", [_status(results)]),
    ]
    right = [
        ("No. Observations:", [f"{results.nobs:,.0f}"]),
        ("Selected:", [f"{results.nobs_selected:,.0f}"]),
        ("Unselected:", [f"{results.nobs_unselected:,.0f}"]),
        *((name, [value]) for name, value in results._header_rows().items()),
    ]
    return left, right


def _header_rows(self: SelectionResults) -> dict[str, str]:
    """The right-hand rows of the summary's header, after the counts."""
    test = independence(self)
    compared = test is not None and test.method == "lr"
    without = self._ll_ignorable() if compared else self.llindep
    # At rho = 0 the free model's link may be another than the logit's.
    same = abs(without - self.llindep) < 1e-6 * (1.0 + abs(self.llindep))
    rows = {
        "Log-Likelihood:": _log_likelihood(self.llf),
        "LL, independent:" if same else "LL, rho = 0:": _log_likelihood(without),
        "AIC:": f"{self.aic:#.6g}",
        "BIC:": f"{self.bic:#.6g}",
        "Pseudo R-squ.:": f"{self.prsquared:#.4g}",
    }
    if not self._fit_info.optimizer.at_maximum:
        rows |= dict.fromkeys(("AIC:", "BIC:", "Pseudo R-squ.:"), "")
    return rows


def _log_likelihood(value: float) -> str:
    """Return the log-likelihood with the digits that a likelihood ratio needs."""
    return f"{value:#.6g}" if abs(value) < 1e4 else f"{value:.2f}"


def summary(
    self: SelectionResults,
    yname: Any = None,
    xname: Any = None,
    title: str | None = None,
    alpha: float = 0.05,
) -> Summary:
    """Text, HTML and LaTeX table of the fit, in the layout of statsmodels.

    Parameters
    ----------
    yname : str, optional
        Name of the outcome.
    xname : list of str, optional
        Names of all parameters.
    title : str, optional
    alpha : float
        Of the intervals.
    """
    model = self.model
    names = list(xname) if xname is not None else model.param_names
    if len(names) != len(self.params):
        raise ValueError(f"xname must be {len(self.params)} names, got {len(names)}")
    smry = SectionedSummary()
    left, right = _header(self)
    smry.add_table_2cols(
        self, gleft=left, gright=right, yname=yname or model.design.outcome_name, xname=names,
        title=title or f"{type(model).__name__} Results",
    )  # fmt: skip
    p, c = model.k_outcome, model.n_coef
    smry.tables.append(
        _params_table(
            self, slice(0, p), names,
            f"Outcome: {yname or model.design.outcome_name}{unit(self)}", alpha,
        )
    )  # fmt: skip
    smry.tables.append(
        _params_table(self, slice(p, c), names, f"Selection: {model.design.select_name}", alpha)
    )
    if len(names) > c and self._is_likelihood:
        smry.tables.append(_params_table(self, slice(c, None), names, "Dependence", alpha))
    smry.tables.append(_dependence_table(self, alpha))
    if self._has_terms:
        smry.tables.append(_terms_table(self, alpha))
    if self._simulation_error is not None:
        smry.tables.append(self._simulation_error.summary(alpha).tables[0])
    smry.add_extra_txt(_footer(self))
    return smry


def unit(results: SelectionResults) -> str:
    """Return the unit of the outcome coefficients in brackets where it is not the usual one."""
    own = results._form.form.link
    if results.model.link != type(results.model).link:
        return f" ({own.title})"
    if results.status is Status.LOADING_INFINITE:
        return f" (loading held at {results.sigma:g})"
    if not results.status.boundary or results._asked() != ("free", None, None):
        return ""
    if results._form.kind == "free" and results.model.normalization != "independent":
        return f" ({own.title}, sigma held at {results.sigma:g})"
    return f" ({own.title})"


def independence(results: SelectionResults) -> IndependenceTest | None:
    """The test of independence, which outlives the data; None where there is none."""
    if results.status is Status.STOPPED or not results._is_likelihood:
        return None
    return results._once("independence", results.test_independence)


def _footer(results: SelectionResults) -> list[str]:
    test = independence(results)
    lines = [] if test is None else [str(test)]
    lines += textwrap.wrap(results.instrument.line, _WIDTH)
    lines.append(f"Standard errors: {results.cov_kwds['description']}.")
    if results._simulation_error is not None:
        lines += textwrap.wrap(results._simulation_error.verdict, _WIDTH)
    for i, note in enumerate(notes(results), start=1):
        lines += textwrap.wrap(f"[{i}] {note}", _WIDTH, subsequent_indent="    ")
    return lines


def _params_table(
    results: SelectionResults, cut: slice, names: list[str], title: str, alpha: float
) -> SimpleTable:
    shown = _terms(results, names)[cut]
    kept = _ordinary(results)[cut]
    columns = (
        results.params, results.bse, results.tvalues, results.pvalues, results.conf_int(alpha)
    )  # fmt: skip
    values = (results, *(np.asarray(column)[cut][kept] for column in columns))
    shown = [name for name, keep in zip(shown, kept, strict=True) if keep]
    profiled = results._by_profile(None) and not results._two_dependence_parameters()
    title = f"{title} ({_PROFILED})" if profiled else title
    table = summary_params(values, yname=None, xname=shown, alpha=alpha, use_t=False, title=title)
    if profiled:  # a ratio to Wald's error, which says nothing there
        for row in table[1:]:
            row[3].data = ""
    return table


def _terms_table(results: SelectionResults, alpha: float) -> SimpleTable:
    cells = shrinkage.table_cells(results, alpha)
    return SimpleTable(
        cells.to_numpy().tolist(), headers=list(cells.columns), stubs=list(cells.index),
        txt_fmt=dict(fmt_params, colwidths=8), title="Penalised terms",
    )  # fmt: skip


def _dependence_table(results: SelectionResults, alpha: float) -> SimpleTable:
    """sigma, rho and the error correlation: estimates and intervals, but no z."""
    table = _dependence_frame(results, alpha)
    title = None if results._is_likelihood else "Dependence in the objective"
    if results._by_profile(None) and results._two_dependence_parameters():
        title = f"error_corr: {_PROFILED}"
    data = []
    for name, (estimate, error, low, high) in zip(table.index, table.to_numpy(), strict=True):
        fixed = "" if np.isfinite(error) else _why_fixed(results, str(name))
        data.append([_number(estimate), _number(error), fixed, "", _number(low), _number(high)])
    headers = ["coef", "std err", "", "", *table.columns[2:]]
    return SimpleTable(
        data, headers=headers, stubs=list(table.index), txt_fmt=fmt_params, title=title
    )


def _dependence_frame(results: SelectionResults, alpha: float) -> pd.DataFrame:
    """The dependence table, with the parameters of an objective that is no likelihood above it.

    Those have no z: a test that they are zero would not be one of independence.
    """
    table = results.dependence_table(alpha)
    if results._is_likelihood:
        return table
    own = tidy(results, alpha).query("equation == 'dependence'")
    own = own[["estimate", "std_error", "conf_low", "conf_high"]]
    return pd.concat([own.set_axis(table.columns, axis=1), table]) if len(own) else table


def _why_fixed(results: SelectionResults, name: str) -> str:
    if not results._fit_info.optimizer.at_maximum:
        return ""
    if results.status.boundary and (name in ("rho", "sigma") or not results._form.free.any()):
        return "boundary"
    kind, free = results._form.kind, results._form.free
    own = {"sigma": free[0], "rho": kind != "loading" and free[-1], "error_corr": free.any()}
    return "not identified" if own.get(name, True) else "fixed"


def _number(value: float) -> str:
    return f"{value:.4f}" if np.isfinite(value) else ("inf" if np.isinf(value) else "")


def summary2(
    self: SelectionResults,
    yname: Any = None,
    xname: Any = None,
    title: str | None = None,
    alpha: float = 0.05,
    float_format: str = "%.4f",
) -> Summary2:
    """The summary in statsmodels' experimental summary2 form.

    Parameters
    ----------
    yname, xname, title, alpha
        As in :meth:`summary`.
    float_format : str
        Of the numbers.
    """
    names = list(xname) if xname is not None else self.model.param_names
    left, right = _header(self)
    left[0] = ("Dep. Variable:", [yname or self.model.design.outcome_name])
    smry = EscapedSummary2()
    cells = {key: value[0] for pair in zip(left, right, strict=True) for key, value in pair}
    smry.add_dict(cells, ncols=2)
    kept = _ordinary(self)
    table = tidy(self, alpha)
    table = table.set_axis([n for n, keep in zip(names, kept, strict=True) if keep], axis=0)
    if not self._is_likelihood:
        table = table[table["equation"] != "dependence"]
    table = table.iloc[:, 2:]
    table.columns = [
        "Coef.", "Std.Err.", "z", "P>|z|", f"[{alpha / 2:.3f}", f"{1 - alpha / 2:.3f}]",
    ]  # fmt: skip
    smry.add_df(table, float_format=float_format)
    smry.add_df(_dependence_frame(self, alpha), float_format=float_format)
    if self._has_terms:
        smry.add_df(shrinkage.table_cells(self, alpha))
    for line in _footer(self):
        smry.add_text(line)
    smry.add_title(title or f"Results: {type(self.model).__name__}")
    return smry
