"""Reports of a fit on one page, as LaTeX tables or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from statsmodels.base.model import GenericLikelihoodModelResults

from . import page
from .findings import Findings, gather
from .record import as_json, fit_record, report_record
from .sections import page_of
from .sensitivities import check_alpha

SUFFIXES = (".html", ".tex", ".json")


class Reporting(GenericLikelihoodModelResults):
    """Reports of a fitted selection model."""

    def report(
        self,
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
        self.model._check_data_at_hand()
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
        page.write_atomically(path, text)
        return path

    def to_json(self, path: str | Path | None = None) -> str:
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

        - ``model``, ``normalization`` (of the fit) and ``asked`` (differs where the maximum lies on
          a face), ``integration``, ``formula``, ``select_formula`` (as text)
        - ``equations``: names of the columns, outcome and select
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
            page.write_atomically(Path(path), text)
        return text


def check_path(path: str | Path) -> Path:
    """Refuse a report's path before long work is done for it."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"path={str(path)!r} must end in one of {', '.join(SUFFIXES)}")
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


def _latex(results: Any, found: Findings) -> str:
    parts = [results.summary(alpha=found.alpha)]
    parts += [effects.summary(found.alpha) for effects in found.effects.values()]
    tables = "\n\n".join(part.as_latex() for part in parts)
    return f"% Needs \\usepackage{{booktabs}}.\n{tables}\n"
