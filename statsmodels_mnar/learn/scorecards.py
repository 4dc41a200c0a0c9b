"""The reject-inference baselines as scikit-learn classifiers."""

from __future__ import annotations

from typing import Any, ClassVar

from ..baselines import FuzzyAugmentation, Parcelling, Reclassification, ScoreBandAugmentation
from ..types import Floats
from .classifiers import LinearClassifier


class _RejectClassifier(LinearClassifier):
    """A baseline whose options are the classifier's own parameters."""

    _baseline: ClassVar[Any]
    _options: ClassVar[tuple[str, ...]]

    def _estimate(self, y: Floats, X: Any, W: Any, weights: Floats | None, **how: Any) -> Any:
        options = {name: getattr(self, name) for name in self._options}
        model = self._baseline(y, X, exog_select=W, prob_weights=weights, **options)
        return model.fit(penalty=self.penalty)


class ReclassificationClassifier(_RejectClassifier):
    """Unlabelled rows get the class on their side of a cut-off, and the logit is fitted again.

    The classifier of :class:`~statsmodels_mnar.baselines.Reclassification`, which says what it
    assumes.

    Parameters
    ----------
    cutoff : float, optional
        Rows with P(y = 1) above it become the second class; by default as many labelled rows lie
        above as are of it.
    outcome_features, selection_features, penalty, missing_label
        As in :class:`GreeneClassifier`; the selection features are not used.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> from statsmodels_mnar.learn import ReclassificationClassifier
    >>> data = simulate_greene(1_000, rng=1).data
    >>> model = ReclassificationClassifier(cutoff=0.5).fit(data[["x1", "x2"]], data["y"])
    >>> sorted(model.results_.inferred.unique().tolist())
    [0.0, 1.0]
    """

    _baseline = Reclassification
    _options = ("cutoff",)

    def __init__(
        self,
        *,
        cutoff: float | None = None,
        outcome_features: Any = None,
        selection_features: Any = None,
        penalty: float = 1e-4,
        missing_label: Any = -1,
    ) -> None:
        self.cutoff = cutoff
        self.outcome_features = outcome_features
        self.selection_features = selection_features
        self.penalty = penalty
        self.missing_label = missing_label


class FuzzyAugmentationClassifier(_RejectClassifier):
    """Unlabelled rows enter twice, weighted by their probabilities, and the logit is fitted again.

    The classifier of :class:`~statsmodels_mnar.baselines.FuzzyAugmentation`, which says what it
    assumes, and why it changes nothing at the default.

    Parameters
    ----------
    odds_ratio : float
        Odds of the second class among unlabelled rows over those among labelled ones.
    outcome_features, selection_features, penalty, missing_label
        As in :class:`GreeneClassifier`; the selection features are not used.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> from statsmodels_mnar.learn import FuzzyAugmentationClassifier
    >>> data = simulate_greene(1_000, rng=1).data
    >>> X, y = data[["x1", "x2"]], data["y"]
    >>> shares = [
    ...     FuzzyAugmentationClassifier(odds_ratio=ratio).fit(X, y).predict_proba(X)[:, 1].mean()
    ...     for ratio in (0.5, 1.0)
    ... ]
    >>> bool(shares[0] < shares[1])
    True
    """

    _baseline = FuzzyAugmentation
    _options = ("odds_ratio",)

    def __init__(
        self,
        *,
        odds_ratio: float = 1.0,
        outcome_features: Any = None,
        selection_features: Any = None,
        penalty: float = 1e-4,
        missing_label: Any = -1,
    ) -> None:
        self.odds_ratio = odds_ratio
        self.outcome_features = outcome_features
        self.selection_features = selection_features
        self.penalty = penalty
        self.missing_label = missing_label


class ParcellingClassifier(_RejectClassifier):
    """Unlabelled rows get labels at random at the rate of their score band, and one more fit.

    The classifier of :class:`~statsmodels_mnar.baselines.Parcelling`, which says what it assumes.

    Parameters
    ----------
    factor : float or sequence of float
        Prudence factor of the rate of the second class, one or one for each band.
    n_bands : int
        Score bands.
    rng : int or numpy.random.Generator
        Of the drawn labels.
    outcome_features, selection_features, penalty, missing_label
        As in :class:`GreeneClassifier`; the selection features are not used.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> from statsmodels_mnar.learn import ParcellingClassifier
    >>> data = simulate_greene(1_000, rng=1).data
    >>> model = ParcellingClassifier(n_bands=5).fit(data[["x1", "x2"]], data["y"])
    >>> len(model.results_.bands)
    5
    """

    _baseline = Parcelling
    _options = ("factor", "n_bands", "rng")

    def __init__(
        self,
        *,
        factor: Any = 1.0,
        n_bands: int = 10,
        rng: Any = 0,
        outcome_features: Any = None,
        selection_features: Any = None,
        penalty: float = 1e-4,
        missing_label: Any = -1,
    ) -> None:
        self.factor = factor
        self.n_bands = n_bands
        self.rng = rng
        self.outcome_features = outcome_features
        self.selection_features = selection_features
        self.penalty = penalty
        self.missing_label = missing_label


class ScoreBandClassifier(_RejectClassifier):
    """Labelled rows stand for the unlabelled ones of their band of the acceptance score.

    The classifier of :class:`~statsmodels_mnar.baselines.ScoreBandAugmentation`, which says what it
    assumes.

    Parameters
    ----------
    n_bands : int
        Bands of the acceptance score.
    outcome_features, selection_features, penalty, missing_label
        As in :class:`GreeneClassifier`; no exclusion restriction is needed.

    Examples
    --------
    >>> from statsmodels_mnar.datasets import simulate_mar
    >>> from statsmodels_mnar.learn import ScoreBandClassifier
    >>> data = simulate_mar(5_000, rng=1).data
    >>> X = data[["x1", "x2", "z"]]
    >>> model = ScoreBandClassifier(outcome_features=["x1", "x2"]).fit(X, data["y"])
    >>> bool(abs(model.predict_proba(X)[:, 1].mean() - data.y_full.mean()) < 0.03)
    True
    """

    _baseline = ScoreBandAugmentation
    _options = ("n_bands",)

    def __init__(
        self,
        *,
        n_bands: int = 10,
        outcome_features: Any = None,
        selection_features: Any = None,
        penalty: float = 1e-4,
        missing_label: Any = -1,
    ) -> None:
        self.n_bands = n_bands
        self.outcome_features = outcome_features
        self.selection_features = selection_features
        self.penalty = penalty
        self.missing_label = missing_label
