"""Reports of a fit on one page, as LaTeX tables or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from statsmodels.base.model import GenericLikelihoodModelResults

from . import page
from .findings import Findings, gather
from .record import as_json
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
        Keys of the JSON record, whose ``schema`` is 1:

        - ``model``, ``normalization``, ``formula``, ``select_formula``, ``alpha``
        - ``data``: nobs, labelled, missing_ratio, dropped, outcome, select, weights
        - ``status``: name, message, converged, boundary, method, iterations, penalty
        - ``fit``: the criteria of ``glance()``
        - ``params``, ``bse``, ``pvalues``, ``conf_int``: by parameter
        - ``cov``: type, description, names, matrix
        - ``dependence``: sigma, rho, error_corr, each with estimate, std_error, conf_low, conf_high
        - ``independence``: method, statistic, df, p_value; null for BiasCorr
        - ``effects``: by probability ("mean", "mean-selected", "mean-unselected") and variable:
          effect, std_error, statistic, p_value, conf_low, conf_high
        - ``shares``: of outcome 1 among all, labelled (observed) and unlabelled rows
        - ``identification``: condition, excluded, exclusion_p_value
        - ``notes``: sentences; ``versions``: of Python and the packages

        What does not exist is null; infinite numbers are "inf" or "-inf".

        Examples
        --------
        >>> import json, tempfile
        >>> from pathlib import Path
        >>> from statsmodels_mnar import GreeneSelectionLogit
        >>> from statsmodels_mnar.datasets import simulate_greene
        >>> sim = simulate_greene(2_000, rng=1)
        >>> results = GreeneSelectionLogit.from_formula(
        ...     sim.formula, sim.select_formula, sim.data, normalization="loading").fit()
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
            text = as_json(self, found)
        page.write_atomically(path, text)
        return path


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
