"""What a report of a fit says: the numbers computed once, in sentences and as plain data."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from ..design.recorded import record
from ..post.dependence import ExclusionTest, IndependenceTest, p_text
from ..post.profile import Profile
from ..post.sensitivity import Identification, Sensitivity
from . import shrinkage, summary
from .drawing import event, indicators, variable_of
from .effects import MarginalEffects
from .robustness import GRID, sensitivity_along

if TYPE_CHECKING:
    from .fitted import SelectionResults

EFFECTS = ("mean", "mean-selected", "mean-unselected")
_MOST = 6  # effects that are named in a sentence


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """The numbers of a report; None where the model has none, with the reason in ``absent``."""

    alpha: float
    effects: dict[str, MarginalEffects]  # by the probability they are effects on
    shares: pd.DataFrame  # of y = 1: rows all, labelled, unlabelled
    independence: IndependenceTest | None
    exclusion: ExclusionTest | None
    identification: Identification
    profile: Profile | None
    prevalence: Sensitivity | None
    effect: Sensitivity | None  # of the effect of `variable`
    variable: str | None  # the outcome column that the report follows
    absent: dict[str, str]


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence or two, and how they are meant."""

    kind: Literal["finding", "caution"]
    text: str


def gather(
    results: SelectionResults, alpha: float, variable: str | None, *, refits: bool, progress: bool
) -> Findings:
    """Compute what a report shows.

    Parameters
    ----------
    results : SelectionResults
    variable : str or None
        The outcome column whose effect is followed; None for the one with the largest z value.
    refits : bool
        Also the profile and the sensitivity, which fit the model some forty times.
    """
    absent: dict[str, str] = {}

    def attempt(name: str, compute: Callable[[], Any]) -> Any:
        """What a model cannot offer, it refuses with a reason; that is then what is reported."""
        try:
            return compute()
        except ValueError as error:
            absent[name] = str(error)
            return None

    effects = {which: results.get_margeff(which=which) for which in EFFECTS}
    variable = _followed(effects["mean"], variable)
    instrument = results.instrument
    profile = prevalence = effect = None
    if refits:
        options: dict[str, Any] = {"alpha": alpha, "progress": progress}
        profile = attempt("profile", lambda: results.profile("error_corr", **options))
        kept: dict[tuple[str, float], Any] = {}  # refits that both targets share

        def along(target: str, column: str | None) -> Sensitivity:
            return sensitivity_along(
                results, {"error_corr": GRID}, target=target, variable=column, which="mean",
                kept=kept, **options,
            )  # fmt: skip

        prevalence = attempt("prevalence", lambda: along("prevalence", None))
        if variable is not None:
            effect = attempt("effect", lambda: along("margeff", variable))
    return Findings(
        alpha=alpha,
        effects=effects,
        shares=_shares(results, alpha),
        independence=attempt("independence", results.test_independence),
        exclusion=instrument if instrument.verdict in ("strong", "weak") else None,
        identification=replace(
            results.identification,
            profile=profile,
            excluded=instrument.columns,
            face=_face(results),
        ),
        profile=profile,
        prevalence=prevalence,
        effect=effect,
        variable=variable,
        absent=absent,
    )


def _followed(effects: MarginalEffects, variable: str | None) -> str | None:
    if variable is None:
        sizes = np.nan_to_num(np.abs(effects.tvalues), nan=-1.0)
        return effects.names[int(sizes.argmax())] if len(sizes) else None
    if variable not in effects.names:
        raise ValueError(
            f"variable={variable!r} is not a column of the outcome equation; those with an effect "
            f"are {list(effects.names)}"
        )
    return variable


def _shares(results: SelectionResults, alpha: float) -> pd.DataFrame:
    """Return the shares of ones: observed among labelled rows, predicted for others."""
    design = results.model.design
    weights = design.row_weights
    seen = design.labelled
    unseen = results.get_prediction(which="mean-unselected", agg_weights=weights * ~seen)
    table = pd.concat(
        [
            results.get_prediction(average=True).summary_frame(alpha),
            pd.DataFrame({"predicted": [np.average(design.y[seen], weights=weights[seen])]}),
            unseen.summary_frame(alpha),
        ]
    )
    return table.set_axis(["all", "labelled", "unlabelled"], axis=0)


def _face(results: SelectionResults) -> str | None:
    """Where a fit of sigma and rho ended, if on a face."""
    both = results._asked() == ("free", None, None)
    return results.status.value if both and results.status.boundary else None


# -- sentences -------------------------------------------------------------------------------------


def read(results: SelectionResults, found: Findings) -> list[Statement]:
    """The findings in plain language."""
    y, s = indicators(results)
    said = [*_about_dependence(results, found, y), _about_shares(found, y)]
    said += _about_effects(found, y)
    said.append(_about_exclusion(found, y, s))
    said += _about_sensitivity(found)
    cautions = [Statement("caution", note) for note in summary.notes(results)]
    width = found.identification.width
    if width is not None and width > 1.0:
        cautions.append(
            Statement(
                "caution",
                f"The interval of the error correlation covers {width / 2:.0%} of its range: a "
                "conclusion should hold across it.",
            )
        )
    if results.converged:
        return said + cautions
    first = "The fit is not at a maximum: what follows describes where it stopped, no estimate."
    return [Statement("caution", first), *cautions, *said]


def _about_dependence(results: SelectionResults, found: Findings, y: str) -> list[Statement]:
    if found.independence is None or not np.isfinite(found.independence.pvalue):
        return []
    test = str(found.independence)
    kind = f"{1 - found.alpha:.0%} {'profile ' if found.profile is not None else ''}interval"
    estimate, low, high = _error_correlation(results, found)
    interval = f"{low:.2f} to {high:.2f}" if np.isfinite([low, high]).all() else ""
    if found.independence.pvalue >= found.alpha:
        agree = f" Error correlations from {interval} agree with the data." if interval else ""
        return [
            Statement(
                "finding",
                f"The data do not reject that selection is ignorable ({test}). That does not prove "
                f"it.{agree}",
            )
        ]
    text = f"Selection is not ignorable ({test}): a model of the labelled rows alone is biased."
    if interval:
        more = "more" if estimate > 0 else "less"
        text += (
            f" The error correlation is {estimate:.2f} ({kind} {interval}): among rows "
            f"with the same covariates, labelled ones have {event(y)} {more} often than unlabelled "
            "ones."
        )
    return [Statement("finding", text)]


def _error_correlation(results: SelectionResults, found: Findings) -> tuple[float, float, float]:
    if found.profile is not None:
        return (results.error_corr, *found.profile.interval)
    low, high = results.dependence_table(found.alpha).iloc[-1, 2:]  # the last row in every form
    return results.error_corr, float(low), float(high)


def _about_shares(found: Findings, y: str) -> Statement:
    shares = found.shares

    def predicted(row: str) -> str:
        value, low, high = shares.loc[row, ["predicted", "ci_lower", "ci_upper"]]
        ends = f" ({low:.1%} to {high:.1%})" if np.isfinite([low, high]).all() else ""
        return f"{value:.1%}{ends}"

    return Statement(
        "finding",
        f"Share of {event(y)}: {shares.predicted['labelled']:.1%} of the labelled rows, as "
        f"observed; by the model {predicted('unlabelled')} of the unlabelled rows and "
        f"{predicted('all')} of the population.",
    )


def _about_effects(found: Findings, y: str) -> list[Statement]:
    effects = found.effects["mean"]
    if not effects.names or not np.isfinite(effects.margeff_se).all():
        return []
    clear = [int(i) for i in np.argsort(-np.abs(effects.tvalues))]
    clear = [i for i in clear if effects.pvalues[i] < found.alpha]
    ends = effects.conf_int(found.alpha)
    named = [
        f"{effects.names[i]} {100 * effects.margeff[i]:+.1f} "
        f"({100 * ends[i, 0]:+.1f} to {100 * ends[i, 1]:+.1f})"
        for i in clear[:_MOST]
    ]
    said = []
    if named:
        more = f", and {len(clear) - _MOST} more" if len(clear) > _MOST else ""
        said.append(
            Statement(
                "finding",
                f"Average effects on P({event(y)}) in percentage points, for one unit more or, of "
                f"a 0/1 column, for 1 against 0: {', '.join(named)}{more}.",
            )
        )
    unclear = [name for i, name in enumerate(effects.names) if i not in clear]
    if unclear:
        said.append(Statement("finding", f"Not distinguishable from zero: {', '.join(unclear)}."))
    return said


def _about_exclusion(found: Findings, y: str, s: str) -> Statement:
    test, y, s = found.exclusion, variable_of(y), variable_of(s)
    if found.identification.excluded == ():
        return Statement(
            "caution",
            f"No variable moves {s} without entering the equation of {y}: what is said about "
            "the unlabelled rows rests on the functional form alone.",
        )
    if test is None:
        names = _variables(found.identification.excluded or ())
        return Statement(
            "caution", f"Without standard errors it is not known how strongly {names} move(s) {s}."
        )
    names = _variables(test.columns)
    plural = ", " in names
    numbers = f"Wald chi2({test.df}) = {test.statistic:.1f}, p {p_text(test.pvalue)}"
    if test.pvalue >= found.alpha:
        text = f"do{'' if plural else 'es'} not detectably move {s}"
    else:
        text = f"move{'' if plural else 's'} {s}{', but weakly' * test.weak}"
    kind: Literal["finding", "caution"] = "caution" if test.weak else "finding"
    do = "they do" if plural else "it does"
    return Statement(
        kind,
        f"Exclusion restriction: {names} {text} ({numbers}). That {do} not enter the equation of "
        f"{y} is an assumption, which the data cannot test.",
    )


def _variables(columns: Iterable[str]) -> str:
    """The columns of a design, with those that are levels of one factor as that."""
    counts = Counter(map(variable_of, columns))
    return ", ".join(
        f"{name} ({count} levels)" if count > 1 else name for name, count in counts.items()
    )


def _about_sensitivity(found: Findings) -> list[Statement]:
    said = []
    span = f"error correlations from {GRID[0]:g} to {GRID[-1]:g}"
    if found.effect is not None and found.effect.tipping is not None:
        tipping = found.effect.tipping
        where = [
            f"{at:.2f} ({change})"
            for at, change in zip(tipping["at"], tipping["change"], strict=True)
        ]
        text = f"Neither its sign nor its significance changes across {span}."
        if where:
            text = f"Across {span} it tips at {', '.join(where)}."
            if found.profile is not None:
                low, high = found.profile.interval
                inside = int(tipping["at"].between(low, high).sum())
                text += (
                    f" {inside or 'None'} of these lie{'s' * (inside < 2)} among the values that "
                    f"the data do not reject, {low:.2f} to {high:.2f}."
                )
        said.append(Statement("finding", f"The effect of {found.variable}: {_lower(text)}"))
    if found.prevalence is not None and found.prevalence.bounds is not None:
        table, words = found.prevalence.table, span
        supported = table.get("supported", pd.Series(dtype=bool))
        if found.profile is not None and supported.any():
            table, words = table[supported], "the error correlations tried and not rejected"
        ends, worst = table["estimate"].agg(["min", "max"]), found.prevalence.bounds
        said.append(
            Statement(
                "finding",
                f"Across {words}, the share in the population runs from {ends['min']:.1%} to "
                f"{ends['max']:.1%}; whatever the missing labels are, it lies between "
                f"{worst[0]:.1%} and {worst[1]:.1%}.",
            )
        )
    return said


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def identification_lines(found: Findings) -> list[str]:
    """The identification report; the exclusion has a sentence of its own."""
    return str(replace(found.identification, excluded=None)).splitlines()


# -- A fit as plain data, for JSON -----------------------------------------------------------------


SCHEMA = 1
LARGEST_FILE = 2**28  # bytes
_PACKAGES = ("statsmodels-mnar", "statsmodels", "numpy", "scipy", "pandas", "torch")
_EFFECT = ("effect", "std_error", "statistic", "p_value", "conf_low", "conf_high")


def as_json(record: dict[str, Any]) -> str:
    """A record as a JSON text; what is not finite is null, or "inf" and "-inf"."""
    text = json.dumps(_plain(record), indent=2, allow_nan=False) + "\n"
    if len(text) > LARGEST_FILE:
        raise ValueError(
            f"the file would be larger than {LARGEST_FILE >> 20} MB, which from_json does not "
            "read: the factor of a penalised term has too many levels. Pickle the results instead"
        )
    return text


def fit_record(results: SelectionResults) -> dict[str, Any]:
    """The fit itself: all that ``from_json`` reads, documented in :meth:`to_json`."""
    model, design = results.model, results.model.design
    fit, status, names = results._fit_info, results.status, model.param_names
    test = summary.independence(results)
    compared = test is not None and test.method == "lr"
    return {
        "schema": SCHEMA,
        "model": type(model).__name__,
        "link": model.link.name,
        "normalization": model.normalization,
        "asked": model.normalization if fit.asked is None else fit.asked,
        "integration": {"by": type(model.integration).__name__} | asdict(model.integration),
        "formula": getattr(model, "formula", None),
        "select_formula": getattr(model, "select_formula", None),
        "equations": {"outcome": design.outcome_names, "select": design.select_names},
        "terms": _terms(design),
        "offsets": model.offset_columns,
        "data": {
            "nobs": results.nobs,
            "labelled": results.nobs_selected,
            "missing_ratio": results.eta,
            "dropped": dict(design.dropped._asdict()),
            "outcome": design.outcome_name,
            "select": design.select_name,
            "weights": design.weight_kind,
            "constant": bool(model.k_constant),
        },
        "status": {
            "name": status.name.lower(),
            "message": status.value,
            "converged": results.converged,
            "boundary": status.boundary,
            "method": fit.method,
            "iterations": results.solution.n_iter,
            "score_norm": results.solution.score_norm,
            "penalty": fit.penalty,
            "options": {name: _scalar(value) for name, value in fit.options.items()},
        },
        "fit": results._criteria(),
        "likelihoods": {
            "value": results.solution.value,
            "llf": results.llf,
            "llnull": results.llnull if results._is_likelihood else None,
            "ignorable": results._ll_ignorable() if compared else None,
            "faces": fit.faces,
        },
        "apart": {
            "params": fit.independent.params,
            "value": fit.independent.value,
            "converged": fit.independent.converged,
        },
        "params": dict(zip(names, np.asarray(results.params), strict=True)),
        "cov": {
            "type": results.cov_type,
            "description": results.cov_kwds["description"],
            "n_groups": results.cov_kwds["n_groups"],
            "names": names,
            "matrix": np.asarray(results.cov_params_default),
        },
        "hessian": results._hessian(),
        "independence": None if test is None else _test(test),
        "instrument": asdict(results.instrument),
        "weak": results.weak,
        "across": asdict(results._across()) if results._by_profile(None) else None,
        "accuracy": None if results.accuracy is None else asdict(results.accuracy),
        "biascorr": results._first_stage_record(),
        "penalised_terms": shrinkage.record(results) if results._has_terms else None,
        "free_shares": results._leverage() if results._has_terms else None,
        "effects_apart": shrinkage.effects_record(results),
        "adjustment": shrinkage.adjustment_record(results),
        "notes": summary.notes(results),
        "versions": versions(),
    }


def _terms(design: Any) -> dict[str, Any] | None:
    """Return what both formulas have learned; None where a file cannot hold it."""
    parts = {"outcome": record(design.outcome_spec), "select": record(design.select_spec)}
    return None if None in parts.values() else parts


def report_record(results: SelectionResults, found: Findings) -> dict[str, Any]:
    """The fit and what follows from it, documented in :meth:`SelectionResults.report`."""
    names = results.model.param_names
    columns = ("estimate", "std_error", "conf_low", "conf_high")
    test = found.independence
    return fit_record(results) | {
        "bse": dict(zip(names, np.asarray(results.bse), strict=True)),
        "pvalues": dict(zip(names, np.asarray(results.pvalues), strict=True)),
        "conf_int": dict(zip(names, np.asarray(results.conf_int(found.alpha)), strict=True)),
        "alpha": found.alpha,
        "dependence": _rows(results.dependence_table(found.alpha).set_axis(columns, axis=1)),
        "independence": None if test is None else _test(test),
        "effects": {
            which: _rows(effects.summary_frame(found.alpha).set_axis(_EFFECT, axis=1))
            for which, effects in found.effects.items()
        },
        "shares": _rows(found.shares.set_axis(columns, axis=1)),
        "identification": {
            "condition": found.identification.condition,
            "excluded": found.identification.excluded,
            "exclusion_p_value": None if found.exclusion is None else found.exclusion.pvalue,
        },
    }


def _test(test: IndependenceTest) -> dict[str, Any]:
    return {
        "method": test.method,
        "statistic": test.statistic,
        "df": test.df,
        "p_value": test.pvalue,
    }


def _scalar(value: Any) -> Any:
    """A number or a text; of anything else, such as a generator, its name."""
    plain = isinstance(value, bool | int | float | str | np.number | None)
    return value if plain else type(value).__name__


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages behind the numbers."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # used from a source tree that is not installed
            found[package] = "unknown"
    return found


def _rows(frame: pd.DataFrame) -> dict[str, dict[str, float]]:
    return {str(name): row.to_dict() for name, row in frame.iterrows()}


def _plain(value: Any) -> Any:
    """Nested values as JSON knows them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
