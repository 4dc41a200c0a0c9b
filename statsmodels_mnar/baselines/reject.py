"""Reject inference as scorecard builders practise it: a second fit, on inferred labels or weights.

Each starts from the naive logit or from a model of acceptance, and so assumes that labels are
missing at random in one sense or another; the docstrings say in which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from ..design import Design, check_rank, check_selection_varies
from ..types import Floats
from .base import Baseline, BaselineResults, Estimate, regress
from .logit import propensity


@dataclass(frozen=True, slots=True)
class Completed:
    """The rows of the second fit: each row of the data, or some of them, or some twice."""

    rows: NDArray[np.int64]  # (m,) positions in the design
    y: Floats  # (m,) observed or inferred
    weight: Floats  # (m,)
    bands: pd.DataFrame | None = None  # one row for each score band


class RejectInferenceResults(BaselineResults):
    """Estimates of the second fit.

    Attributes
    ----------
    inferred : Series
        Share of ones that each unlabelled row entered the second fit with: its inferred label, or
        its probability; empty where the method reweights labelled rows.
    bands : DataFrame or None
        One row for each score band, of the methods that have them.
    """

    def __init__(
        self, model: Any, estimate: Estimate, inferred: pd.Series, bands: pd.DataFrame | None
    ) -> None:
        super().__init__(model, estimate, "newton", None)
        self.inferred, self.bands = inferred, bands

    def _header(self) -> dict[str, Any]:
        if self.inferred.empty:
            return {}
        return {"Inferred share of ones": float(self.inferred.mean())}

    def _notes(self) -> list[str]:
        return [self.model._assumes, "The method defines no standard errors."]


class _RejectInference(Baseline):
    """A naive logit, what the method makes of the unlabelled rows, and a second logit."""

    _assumes = ""

    def fit(self, penalty: float = 0.0) -> RejectInferenceResults:
        """Fit, infer, and fit again.

        Parameters
        ----------
        penalty : float
            Ridge of all regressions, on the coefficients of standardized columns.
        """
        design = self.design
        check_selection_varies(design.counted)
        self._check_outcome(penalty)
        found, converged = self._complete(penalty)
        X = design.X[found.rows]
        own = design.row_weights[found.rows]
        fit = regress(
            found.y, X, design.outcome_names, "outcome", weight=own * found.weight, penalty=penalty
        )
        return RejectInferenceResults(
            self,
            Estimate(fit.params.numpy(), None, converged and fit.converged),
            self._inferred(found),
            found.bands,
        )

    def _inferred(self, found: Completed) -> pd.Series:
        """Weighted mean of the labels of each unlabelled row."""
        design = self.design
        n = design.nobs
        total = np.bincount(found.rows, found.weight, n)
        ones = np.bincount(found.rows, found.weight * found.y, n)
        used = ~design.labelled & (total > 0)
        return pd.Series(ones[used] / total[used], index=design.index[used], name="inferred")

    def _naive(self, penalty: float) -> tuple[Floats, bool]:
        """(n,) P(y = 1 | x) of every row by a logit of the labelled ones."""
        fit = self._fit_labelled(penalty)
        return expit(self.design.X @ fit.params.numpy()), fit.converged

    def _complete(self, penalty: float) -> tuple[Completed, bool]:
        """The rows of the second fit, and whether the first converged."""
        raise NotImplementedError


class Reclassification(_RejectInference):
    """Each unlabelled row gets the class on its side of a cut-off, and the logit is fitted again.

    Assumes that the naive logit ranks the unlabelled rows rightly, and that all above the cut-off
    are ones. The second fit is surer than the data: inferred labels lie on the first fit's own
    line, so that slopes grow.

    Parameters
    ----------
    endog, exog, endog_select, exog_select, missing, freq_weights, prob_weights
        As in :class:`NaiveLogit`; the selection design is accepted and not used.
    cutoff : float, optional
        Rows with P(y = 1) above it become ones. By default the value above which as many labelled
        rows lie as there are ones among them; one half infers hardly any default where that is
        rare.

    References
    ----------
    Joanes (1993), Reject inference applied to logistic regression for credit scoring, IMA Journal
    of Mathematics Applied in Business and Industry 5.
    Thomas, Edelman and Crook (2002), Credit Scoring and Its Applications, SIAM, chapter 8.

    Examples
    --------
    >>> from statsmodels_mnar.baselines import Reclassification
    >>> from statsmodels_mnar.datasets import simulate_credit
    >>> sim = simulate_credit(2_000, rng=1)
    >>> results = Reclassification.from_formula(sim.formula, sim.select_formula, sim.data).fit()
    >>> sorted(results.inferred.unique().tolist())
    [0.0, 1.0]
    """

    _assumes = "Assumes that all unlabelled rows above the cut-off are ones."

    def _set_up(self, design: Design, *, cutoff: float | None = None) -> None:
        if cutoff is not None and not 0 < cutoff < 1:
            raise ValueError(f"cutoff={cutoff!r} must be a probability between 0 and 1, or None")
        super()._set_up(design)
        self.cutoff = cutoff

    def _complete(self, penalty: float) -> tuple[Completed, bool]:
        p, converged = self._naive(penalty)
        design, seen = self.design, self.design.labelled
        cutoff = self.cutoff
        if cutoff is None:
            order = np.argsort(-p[seen], kind="stable")
            weight = design.row_weights[seen]
            above = np.searchsorted(np.cumsum(weight[order]), weight @ design.y[seen], "right")
            cutoff = float(p[seen][order][above])
        y = np.where(seen, design.y, (p > cutoff).astype(float))
        return Completed(np.arange(len(y)), y, np.ones(len(y))), converged


class FuzzyAugmentation(_RejectInference):
    """Each unlabelled row enters twice, as a one and as a zero, weighted by its probabilities.

    Assumes that the unlabelled rows have the naive logit's odds, times ``odds_ratio``. At the
    default of one, and without a penalty, the second fit is the first: labels that the logit
    itself predicts teach it nothing.

    Parameters
    ----------
    endog, exog, endog_select, exog_select, missing, freq_weights, prob_weights
        As in :class:`NaiveLogit`; the selection design is accepted and not used.
    odds_ratio : float
        Odds of a one among unlabelled rows over those among labelled rows with the same x: what
        the user knows, or fears.

    References
    ----------
    Siddiqi (2006), Credit Risk Scorecards, Wiley, chapter 6.
    Ehrhardt, Biernacki, Vandewalle, Heinrich and Beben (2021), Reject inference methods in credit
    scoring, Journal of Applied Statistics 48, which proves that nothing is learnt.

    Examples
    --------
    >>> import numpy as np
    >>> from statsmodels_mnar.baselines import FuzzyAugmentation, NaiveLogit
    >>> from statsmodels_mnar.datasets import simulate_credit
    >>> sim = simulate_credit(2_000, rng=1)
    >>> formulas = sim.formula, sim.select_formula, sim.data
    >>> naive = NaiveLogit.from_formula(*formulas).fit()
    >>> fuzzy = FuzzyAugmentation.from_formula(*formulas).fit()
    >>> bool(np.allclose(fuzzy.params, naive.params, rtol=1e-6))
    True
    """

    _assumes = "Assumes that unlabelled rows have the naive odds, times odds_ratio."

    def _set_up(self, design: Design, *, odds_ratio: float = 1.0) -> None:
        _check_positive(odds_ratio, "odds_ratio")
        super()._set_up(design)
        self.odds_ratio = odds_ratio

    def _complete(self, penalty: float) -> tuple[Completed, bool]:
        p, converged = self._naive(penalty)
        seen = np.flatnonzero(self.design.labelled)
        unseen = np.flatnonzero(~self.design.labelled)
        ones = self.odds_ratio * p[unseen]
        share = ones / (ones + 1.0 - p[unseen])
        return Completed(
            np.concatenate([seen, unseen, unseen]),
            np.concatenate([self.design.y[seen], np.ones(len(unseen)), np.zeros(len(unseen))]),
            np.concatenate([np.ones(len(seen)), share, 1.0 - share]),
        ), converged


class Parcelling(_RejectInference):
    """Unlabelled rows get labels at random, at the rate of ones of their score band.

    Rows are cut into bands of the naive logit's score. In each band the share of ones among
    labelled rows, times ``factor``, is the share of unlabelled rows that become ones, drawn at
    random; then the logit is fitted again.

    Assumes that within a band the unlabelled rows differ from the labelled ones by ``factor`` only.

    Parameters
    ----------
    endog, exog, endog_select, exog_select, missing, freq_weights, prob_weights
        As in :class:`NaiveLogit`; the selection design is accepted and not used.
    factor : float or sequence of float
        Prudence factor, one for all bands or one for each, from the lowest score up. One: labels
        are missing at random within bands. The data do not tell it.
    n_bands : int
        Bands of about equally many rows; fewer where scores are tied.
    rng : int or numpy.random.Generator
        Of the drawn labels.

    References
    ----------
    Siddiqi (2006), Credit Risk Scorecards, Wiley, chapter 6.
    Banasik and Crook (2007), Reject inference, augmentation and sample selection, European
    Journal of Operational Research 183.

    Examples
    --------
    >>> from statsmodels_mnar.baselines import Parcelling
    >>> from statsmodels_mnar.datasets import simulate_credit
    >>> sim = simulate_credit(4_000, rng=1)
    >>> model = Parcelling.from_formula(sim.formula, sim.select_formula, sim.data, factor=2.0)
    >>> bands = model.fit().bands
    >>> list(bands.columns)
    ['labelled', 'unlabelled', 'labelled_rate', 'inferred_rate']
    """

    _assumes = "Assumes that within a score band rates differ by the given factor only."

    def _set_up(
        self,
        design: Design,
        *,
        factor: Any = 1.0,
        n_bands: int = 10,
        rng: int | np.random.Generator = 0,
    ) -> None:
        _check_bands(n_bands)
        factors = np.atleast_1d(np.asarray(factor, dtype=float))
        if factors.ndim != 1 or len(factors) not in (1, n_bands):
            raise ValueError(
                f"factor has {factors.size} values; give one, or one for each of {n_bands} bands"
            )
        for value in factors:
            _check_positive(value, "factor")
        super()._set_up(design)
        self.factor, self.n_bands, self.rng = factor, n_bands, rng
        self._factors = factors

    def _complete(self, penalty: float) -> tuple[Completed, bool]:
        p, converged = self._naive(penalty)
        design, seen = self.design, self.design.labelled
        codes, n_bands = score_bands(p, design.row_weights, self.n_bands)
        factors = np.resize(self._factors, self.n_bands)
        rng = np.random.default_rng(self.rng)
        y = np.where(seen, design.y, 0.0)
        rows = []
        for band in range(n_bands):
            inside = codes == band
            here, there = inside & seen, np.flatnonzero(inside & ~seen)
            weight = design.row_weights[here]
            # A band without labelled rows has the rate that the first fit predicts.
            rate = np.average(design.y[here], weights=weight) if weight.any() else p[inside].mean()
            wanted = min(1.0, float(factors[band] * rate))
            ones = rng.permutation(there)[: round(wanted * len(there))]
            y[ones] = 1.0
            inferred = len(ones) / len(there) if len(there) else np.nan
            rows.append((int(here.sum()), len(there), rate, inferred))
        columns = ["labelled", "unlabelled", "labelled_rate", "inferred_rate"]
        bands = pd.DataFrame(rows, columns=columns).rename_axis("band")
        return Completed(np.arange(len(y)), y, np.ones(len(y)), bands), converged


class ScoreBandAugmentation(_RejectInference):
    """Labelled rows stand for the unlabelled ones of their band of the acceptance score.

    A logit of who is labelled scores all rows. In each band of that score the labelled rows are
    weighted by all rows over labelled rows, (A + R)/A, and the logit is fitted with these weights.
    It is inverse probability weighting by bands.

    Assumes that within a band of the acceptance score labels are missing at random.

    Parameters
    ----------
    endog, exog, endog_select, missing, freq_weights, prob_weights
        As in :class:`NaiveLogit`.
    exog_select : array_like, optional
        (n, k) design of the acceptance score; by default ``exog``.
    n_bands : int
        Bands of about equally many rows; fewer where scores are tied. Rows of a band without a
        labelled row are represented by nobody: look at ``results.bands``.

    References
    ----------
    Hsia (1978), Credit scoring and the Equal Credit Opportunity Act, Hastings Law Journal 30.
    Banasik and Crook (2007), Reject inference, augmentation and sample selection, European
    Journal of Operational Research 183.

    Examples
    --------
    >>> from statsmodels_mnar.baselines import ScoreBandAugmentation
    >>> from statsmodels_mnar.datasets import simulate_mar
    >>> sim = simulate_mar(5_000, rng=1)
    >>> model = ScoreBandAugmentation.from_formula(sim.formula, sim.select_formula, sim.data)
    >>> bool(abs(model.fit().params["x1"] - sim.truth["x1"]) < 0.1)
    True
    """

    _assumes = "Assumes that labels are missing at random within a band of the acceptance score."

    def _set_up(self, design: Design, *, n_bands: int = 10) -> None:
        _check_bands(n_bands)
        super()._set_up(design)
        self.n_bands = n_bands

    def _complete(self, penalty: float) -> tuple[Completed, bool]:
        design, seen = self.design, self.design.labelled
        if penalty == 0:
            check_rank(design.counted)
        score = propensity(design, "logit", penalty)
        codes, n_bands = score_bands(score.probability, design.row_weights, self.n_bands)
        own = design.row_weights
        everybody = np.bincount(codes, own, n_bands)
        accepted = np.bincount(codes[seen], own[seen], n_bands)
        stands_for = np.divide(everybody, accepted, out=np.zeros(n_bands), where=accepted > 0)
        bands = pd.DataFrame(
            {"labelled": accepted, "unlabelled": everybody - accepted, "weight": stands_for}
        ).rename_axis("band")
        rows = np.flatnonzero(seen)
        return Completed(rows, design.y[rows], stands_for[codes[rows]], bands), score.converged


def score_bands(score: Floats, weights: Floats, n_bands: int) -> tuple[NDArray[np.int64], int]:
    """(n,) codes of bands of about equal weight, from the lowest score up, and their number.

    Examples
    --------
    >>> import numpy as np
    >>> score_bands(np.array([0.1, 0.4, 0.2, 0.9]), np.ones(4), 2)
    (array([0, 1, 0, 1]), 2)
    """
    order = np.argsort(score, kind="stable")
    mass = np.cumsum(weights[order]) / weights.sum()
    # The smallest score up to which a band's share of the weight lies, up to rounding.
    at = np.searchsorted(mass, np.arange(1, n_bands) / n_bands - 1e-12)
    cuts = np.unique(score[order][at])
    used, codes = np.unique(np.searchsorted(cuts, score, side="left"), return_inverse=True)
    return codes, len(used)


def _check_bands(n_bands: Any) -> None:
    if not isinstance(n_bands, int | np.integer) or n_bands < 2:
        raise ValueError(f"n_bands={n_bands!r} must be an integer above one")


def _check_positive(value: Any, argument: str) -> None:
    number = isinstance(value, int | float | np.integer | np.floating)
    if not (number and np.isfinite(value) and value > 0):
        raise ValueError(f"{argument}={value!r} must be a positive number")
