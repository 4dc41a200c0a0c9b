"""Reports of a fit: the sections of a page, LaTeX tables and JSON."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..post.sensitivity import Sensitivity
from ..tools import check_alpha, write_whole
from . import page, shrinkage
from .drawing import event, variable_of
from .findings import (
    Findings,
    as_json,
    fit_record,
    gather,
    identification_lines,
    read,
    report_record,
    versions,
)
from .summary import unit

if TYPE_CHECKING:
    from .fitted import SelectionResults

_CRITERIA = {
    "llf": "Log-likelihood",
    "llindep": "Log-likelihood, equations apart",
    "aic": "AIC",
    "bic": "BIC",
    "prsquared": "Pseudo R-squared",
    "objective": "Objective",
    "soft_selection": "Soft selection",
}


def page_of(results: SelectionResults, found: Findings, title: str | None, figures: bool) -> str:
    """The whole report as HTML."""
    design = results.model.design
    title = title or f"{type(results.model).__name__}: {variable_of(design.outcome_name)}"
    draw = _drawer(figures)
    statements = [(each.kind, each.text) for each in read(results, found)]
    used = ", ".join(f"{name} {number}" for name, number in versions().items())
    sections = [
        page.section("What the data say", page.listing(statements, "reading")),
        _data(results),
        _estimates(results, found),
        _terms(results, found, draw),
        _effects(results, found, draw),
        _identification(results, found, draw),
        _sensitivity(results, found, draw),
        _fit_of_the_seen(results, draw),
        page.section(
            "The summary as text",
            page.folded("Show it", page.preformatted(str(results.summary(alpha=found.alpha)))),
        ),
    ]
    header = (
        f"<header>\n<h1>{escape(title)}</h1>\n"
        + page.paragraph(
            f"{variable_of(design.outcome_name)} is known for {results.nobs_selected:,.0f} of "
            f"{results.nobs:,.0f} rows. {1 - found.alpha:.0%} intervals; tests at the "
            f"{found.alpha:.0%} level.",
            "lead",
        )
        + "\n</header>"
    )
    footer = f"<footer>{page.paragraph(f'Made with {used}.')}</footer>"
    return page.document(title, [header, *(part for part in sections if part), footer])


Draw = Callable[[Callable[[], Any], str, str], str]


def _drawer(figures: bool) -> Draw:
    """A figure with its alternative text and caption, or nothing where none are wanted."""

    def draw(make: Callable[[], Any], alt: str, caption: str) -> str:
        if not figures:
            return ""
        try:
            return page.figure(make(), alt, caption)
        except ValueError as error:  # a picture that these data do not bear; the tables are there
            return page.paragraph(f"No picture: {error}.", "note")

    return draw


def _data(results: SelectionResults) -> str:
    model, design = results.model, results.model.design
    formulas = [
        ("Outcome equation", getattr(model, "formula", None) or ", ".join(design.outcome_names)),
        (
            "Selection equation",
            getattr(model, "select_formula", None) or ", ".join(design.select_names),
        ),
    ]
    dropped = {name: count for name, count in design.dropped._asdict().items() if count}
    words = {"subset": "outside the subset", "missing": "with missing covariates"}
    words["outcome"] = "selected but without an outcome"
    counts = [
        ("Rows", f"{results.nobs:,.0f}"),
        (f"Labelled ({event(design.select_name)})", f"{results.nobs_selected:,.0f}"),
        ("Unlabelled", f"{results.nobs_unselected:,.0f}"),
        ("Missing ratio", f"{results.eta:.1%}"),
        *((f"Dropped, {words[name]}", f"{count:,}") for name, count in dropped.items()),
    ]
    if design.weight_kind is not None:
        counts.append(("Weights", design.weight_kind))
    return page.section("Data", page.facts([*formulas, *counts], "What went into the model"))


def _estimates(results: SelectionResults, found: Findings) -> str:
    tidy = results.tidy(found.alpha)
    design = results.model.design
    captions = {
        "outcome": f"Outcome equation: {variable_of(design.outcome_name)}{unit(results)}",
        "select": f"Selection equation: {variable_of(design.select_name)}",
        "dependence": "Dependence, as estimated",
    }
    parts = []
    for equation, caption in captions.items():
        rows = tidy[tidy["equation"] == equation]
        if len(rows):
            numbers = rows.set_index("term").rename_axis("variable").iloc[:, 1:]
            parts.append(page.table(_tested(numbers, "coef", found.alpha), caption))
    dependence = results.dependence_table(found.alpha)
    dependence = dependence.set_axis(["estimate", "std err", *_ends(found.alpha)], axis=1)
    parts.append(page.table(dependence.rename_axis("quantity"), "Dependence of the two equations"))
    criteria = [
        (_CRITERIA[name], f"{value:#.{4 if name == 'prsquared' else 6}g}")
        for name, value in results._criteria().items()
    ]
    parts.append(
        page.facts(
            [
                ("Status", results.status.value),
                ("Standard errors", results.cov_kwds["description"]),
                *criteria,
            ],
            "Fit",
        )
    )
    return page.section("Estimates", *parts)


def _terms(results: SelectionResults, found: Findings, draw: Draw) -> str:
    """Penalised terms: their table, curves and effects of levels."""
    if not results._has_terms:
        return ""
    cells = shrinkage.table_cells(results, found.alpha).rename_axis("term")
    parts = [page.table(cells, "Effective degrees of freedom, standard deviations and tests")]
    parts += [page.paragraph(note, "note") for note in shrinkage.notes(results)]
    for name, kind in shrinkage.kinds(results).items():
        make = results.plot_smooth if kind == "smooth" else results.plot_levels
        what = "the curve with its band" if kind == "smooth" else "effects of the levels in order"
        parts.append(
            draw(
                partial(make, name, alpha=found.alpha),
                f"{name}: {what}, on the scale of the index.",
                f"{name}: {what}.",
            )
        )
    return page.section("Penalised terms", *parts)


def _ends(alpha: float) -> tuple[str, str]:
    return f"[{alpha / 2:.3g}", f"{1 - alpha / 2:.3g}]"


def _tested(frame: pd.DataFrame, name: str, alpha: float) -> pd.DataFrame:
    """Estimate, error, z, p and interval, with few digits for z and p."""
    table = frame.set_axis([name, "std err", "z", "P>|z|", *_ends(alpha)], axis=1).astype(object)
    table["z"] = [page.number(z, 2) for z in frame.iloc[:, 2]]
    shown = ["<0.001" if p < 5e-4 else f"{p:.3f}" if p >= 0 else "" for p in frame.iloc[:, 3]]
    table["P>|z|"] = shown
    return table


def _effects(results: SelectionResults, found: Findings, draw: Draw) -> str:
    words = results._which_in_words()
    parts = [
        page.paragraph(
            "Averages over all rows. A variable that enters both equations has its total effect.",
            "note",
        )
    ]
    for which, effects in found.effects.items():
        frame = _tested(effects.summary_frame(found.alpha), "effect", found.alpha)
        parts.append(page.table(frame, f"Average marginal effects on {words[which]}"))
    shown = [found.effects[which] for which in ("mean", "mean-unselected")]
    if shown[0].names:
        parts.append(
            draw(
                lambda: results.plot_margeff(shown, alpha=found.alpha),
                "Average marginal effects with intervals, in the population and among the "
                "unlabelled; the numbers are those of the tables above.",
                "Average marginal effects in the population and among the unlabelled.",
            )
        )
    along, outcome = _curve_variable(results, found), event(results.model.design.outcome_name)
    if along is not None:
        parts.append(
            draw(
                lambda: results.plot_probabilities(along, alpha=found.alpha),
                f"Predicted probability of {outcome} along {along}: in the population, for "
                "labelled and for unlabelled rows.",
                f"Predicted probabilities along {along}, other variables at their means.",
            )
        )
    shares = found.shares.set_axis(["share", "std err", *_ends(found.alpha)], axis=1)
    parts.append(
        page.table(
            shares.rename_axis("rows"),
            f"Share of {outcome} (labelled rows: as observed)",
        )
    )
    return page.section("Effects and probabilities", *parts)


def _curve_variable(results: SelectionResults, found: Findings) -> str | None:
    """The variable of the data behind the effect that is followed."""
    spec = results.model.design.outcome_spec
    if spec is None:
        return found.variable
    if any(each.across_rows for each in results._specs("p11")):
        return None
    if found.variable in spec.columns:
        return found.variable
    if results.model.frame is None:
        return None
    inside = [name for name in spec.columns if name in (found.variable or "")]
    return next(iter([*inside, *spec.columns]), None)


def _identification(results: SelectionResults, found: Findings, draw: Draw) -> str:
    parts = [page.listing((None, line) for line in identification_lines(found))]
    if found.profile is not None:
        low, high = found.profile.interval
        level = f"{found.profile.level:.0%}"
        parts.append(
            draw(
                partial(results.plot_profile, found.profile),
                f"Profile log-likelihood of the error correlation: highest at "
                f"{found.profile.estimate:.2f}, above the cut from {low:.2f} to {high:.2f}.",
                f"Profile log-likelihood of the error correlation and its {level} interval, "
                f"{low:.2f} to {high:.2f}.",
            )
        )
    elif "profile" in found.absent:
        parts.append(page.paragraph(f"No profile: {found.absent['profile']}.", "note"))
    return page.section("Identification", *parts)


def _sensitivity(results: SelectionResults, found: Findings, draw: Draw) -> str:
    shown = [each for each in (found.prevalence, found.effect) if each is not None]
    if not shown:
        reason = found.absent.get("prevalence", "no refits were made")
        note = page.paragraph(f"No sensitivity to the dependence: {reason}.", "note")
        return page.section("Sensitivity", note)
    note = page.paragraph(
        "How the conclusions move with the error correlation, about which the data tell least. "
        "Values that the data do not reject are marked.",
        "note",
    )
    parts = [part for each in shown for part in _one_sensitivity(results, each, found.alpha, draw)]
    return page.section("Sensitivity", note, *parts)


def _one_sensitivity(
    results: SelectionResults, held: Sensitivity, alpha: float, draw: Draw
) -> tuple[str, str]:
    """The picture, and its numbers folded away."""
    target = held.target.replace("'mean'", results._which_in_words()["mean"])
    what = f"{target[0].upper()}{target[1:]}"
    low, high = held.table["estimate"].min(), held.table["estimate"].max()
    picture = draw(
        lambda: results.plot_sensitivity(held),
        f"{what} along the error correlation: from {low:.3f} to {high:.3f}; the numbers follow.",
        f"{what}, refitted with the error correlation held at each value.",
    )
    ends = dict(zip(("ci_lower", "ci_upper"), _ends(alpha), strict=True))
    table = held.table.rename(columns={"se": "std err", "loglik": "log-lik.", **ends})
    table.index = pd.Index([page.number(v, 1) for v in table.index], name="error correlation")
    if "supported" in table:
        table["supported"] = table["supported"].map({True: "yes", False: "no"})
    return picture, page.folded("The numbers", page.table(table, f"Sensitivity of {target}"))


def _fit_of_the_seen(results: SelectionResults, draw: Draw) -> str:
    picture = draw(
        results.plot_calibration,
        "Observed shares of ones against predicted probabilities on the labelled rows, by "
        "quantiles of the prediction; points on the diagonal are well calibrated.",
        "Calibration on the labelled rows, the part of the model that the data can see.",
    )
    return page.section("Calibration", picture) if picture else ""


# -- reports of a fit on one page, as LaTeX tables or as JSON --------------------------------------


SUFFIXES = (".html", ".tex", ".json")


def report(
    self: SelectionResults,
    path: str | Path,
    *,
    title: str | None = None,
    alpha: float = 0.05,
    variable: str | None = None,
    figures: bool = True,
    progress: bool = False,
) -> Path:
    """Write a report of the fit; the file's suffix says which.

    ``.html`` is one self-contained page: what the numbers mean in plain language, the data, all
    estimates, marginal effects, identification, profile, sensitivity and pictures. ``.tex`` has
    the tables of the summary and of the marginal effects. ``.json`` has the numbers.

    Parameters
    ----------
    path : str or Path
        Ending in .html, .tex or .json. Its folder must exist. The file is whole or not there.
    title : str, optional
        Of the page.
    alpha : float
        Of intervals and tests.
    variable : str, optional
        The outcome column whose effect is followed through the sensitivity analysis; by default
        that with the largest z value.
    figures : bool
        Embed pictures in the page, for which matplotlib must be installed.
    progress : bool
        Show progress bars: the page needs some forty further fits.

    Returns
    -------
    Path

    Notes
    -----
    The JSON record has the keys of :meth:`to_json`, so that ``from_json`` reads it, and:

    - ``bse``, ``pvalues``, ``conf_int``: by parameter; ``alpha`` of the intervals
    - ``dependence``: sigma, rho, error_corr, each with estimate, std_error, conf_low, conf_high
    - ``effects``: by probability ("mean", "mean-selected", "mean-unselected") and variable:
      effect, std_error, statistic, p_value, conf_low, conf_high
    - ``shares``: of outcome 1 among all, labelled (observed) and unlabelled rows
    - ``identification``: condition, excluded, exclusion_p_value

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000, rng=1)
    >>> results = GreeneSelectionLogit.from_formula(
    ...     sim.formula, sim.select_formula, sim.data).fit()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = results.report(Path(folder) / "fit.json")
    ...     json.loads(path.read_text())["status"]["name"]
    'converged'
    """
    path = check_path(path)
    check_alpha(alpha)
    self.model.check_rows_at_hand()
    html = path.suffix.lower() == ".html"
    if html and figures:
        _check_matplotlib()
    found = gather(self, alpha, variable, refits=html, progress=progress)
    if html:
        text = page_of(self, found, title, figures)
    elif path.suffix.lower() == ".tex":
        text = _latex(self, found)
    else:
        text = as_json(report_record(self, found))
    write_whole(path, text)
    return path


def to_json(self: SelectionResults, path: str | Path | None = None) -> str:
    """The fit as a JSON text, which ``from_json`` reads; it holds no code and no data.

    Parameters
    ----------
    path : str or Path, optional
        Where to write it too, whole or not at all.

    Returns
    -------
    str

    Notes
    -----
    Numbers are written to the last digit. Keys of the record, whose ``schema`` is 1:

    - ``model``, ``link``, ``normalization`` (of the fit) and ``asked`` (differs where the maximum
      lies on a face), ``integration``, ``formula``, ``select_formula`` (as text)
    - ``equations``: names of the columns, outcome and select
    - ``terms``: what each formula has learned (columns, factors with their levels and transforms,
      terms with their contrasts), for predictions from data; null where plain values cannot hold
      it; ``offsets``: columns of the two equations
    - ``data``: nobs, labelled, missing_ratio, dropped, outcome, select, weights, constant
    - ``status``: name, message, converged, boundary, method, iterations, score_norm, penalty,
      options
    - ``fit``: the criteria of ``glance()``
    - ``likelihoods``: value (of the objective), llf, llnull, ignorable (at rho = 0), faces
    - ``apart``: params, value and converged of the two equations fitted apart
    - ``params``: by parameter; ``cov``: type, description, n_groups, names, matrix;
      ``hessian``
    - ``independence``: method, statistic, df, p_value; null for BiasCorr
    - ``instrument``: columns, statistic, df, pvalue, offset, known, why
    - ``weak``: the sentences of ``results.weak``; ``across``: u, lr, error_corr, sigma, rho,
      coef, cov, limits and conservative of the refits over error correlations from which
      "profile" intervals follow, null where the intervals are Wald's
    - ``accuracy``: rule, finer, difference, shift, simulated, replaced
    - ``biascorr``: select, outcome, soft_selection, held (see ``held_by_penalty``); null for
      other models
    - ``penalised_terms``: null without any: kind, column, equation, start, apart (effects that
      are no parameters), levels or knots and constraint, penalty, estimated, vanished, edf,
      log_sd_error, lr, flat, flat_df; ``free_shares`` (effective degrees of freedom) of all
      parameters; ``effects_apart``: values, information and tangent (their derivatives in the
      parameters) of such effects; ``adjustment`` of the dependence: kind, knots, values, unit
    - ``notes``: sentences; ``versions``: of Python and the packages

    What does not exist is null; infinite numbers are "inf" or "-inf".

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit, from_json
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000, rng=1)
    >>> results = GreeneSelectionLogit.from_formula(
    ...     sim.formula, sim.select_formula, sim.data).fit()
    >>> again = from_json(results.to_json())
    >>> bool((again.params == results.params).all())
    True
    """
    text = as_json(fit_record(self))
    if path is not None:
        write_whole(Path(path), text)
    return text


def check_path(path: str | Path, suffixes: tuple[str, ...] = SUFFIXES) -> Path:
    """Refuse a path to write to before long work is done for it."""
    path = Path(path)
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"path={str(path)!r} must end in one of {', '.join(suffixes)}")
    if not path.parent.is_dir():
        raise ValueError(f"path={str(path)!r}: the folder {str(path.parent)!r} does not exist")
    if path.is_dir():
        raise ValueError(f"path={str(path)!r} is a folder; give the name of a file")
    return path


def _check_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "the report's pictures need matplotlib: pip install 'statsmodels-mnar[plot]', or "
            "figures=False"
        ) from error


def _latex(results: SelectionResults, found: Findings) -> str:
    parts = [results.summary(alpha=found.alpha)]
    parts += [effects.summary(found.alpha) for effects in found.effects.values()]
    tables = "\n\n".join(part.as_latex() for part in parts)
    return f"% Needs \\usepackage{{booktabs}}.\n{tables}\n"
