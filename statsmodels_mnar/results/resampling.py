"""Refits of a fitted selection model: bootstrap, jackknife, other draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import AbsentError
from ..post.covariance import group_codes
from .bootstrap import BootstrapResults, Kind
from .bootstrap import bootstrap as _bootstrap
from .jackknife import JackknifeResults, SimulationError
from .jackknife import jackknife as _jackknife
from .jackknife import simulation_error as _simulation_error

if TYPE_CHECKING:
    from .selection import SelectionResults

Floats = NDArray[np.float64]


def bootstrap(
    self: SelectionResults,
    n_rep: int = 999,
    kind: Kind | None = None,
    rng: int | np.random.Generator | None = None,
    *,
    groups: Any = None,
    progress: bool = False,
    n_jobs: int | None = None,
    **fit_options: Any,
) -> BootstrapResults:
    """Bootstrap that repeats every step of the fit, first stages included.

    Parameters
    ----------
    n_rep : int
        Replicates.
    kind : {"pairs", "cluster", "weighted"}, optional
        Draw rows; draw clusters; or give rows (clusters, where there are any) exponential
        weights, the Bayesian bootstrap, in which no replicate loses a category or separates.
        By default "cluster" where the fit has clusters, else "pairs".
    rng : int or Generator, optional
    groups : optional
        Clusters as in ``cov_kwds``; by default those of the fit.
    progress : bool
        Show a bar.
    n_jobs : int, optional
        For fits that have no batch (a scikit-learn first stage, the paper's descent), which go
        through joblib.
    **fit_options
        Of ``fit``; by default the method and penalty of this fit.

    Returns
    -------
    BootstrapResults
        With ``bse``, ``cov``, ``bias``, ``conf_int(kind=)``, ``summary()``, ``plot()`` and the
        replicates that ``failed``. Replicates are fitted under the normalization of this fit's
        face.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> model = GreeneSelectionLogit.from_formula(
    ...     "y ~ x1 + x2", "s ~ x1 + x2 + z", simulate_greene(1_000).data)
    >>> draws = model.fit().bootstrap(n_rep=50, rng=0)
    >>> draws.failed.total(), draws.replicates.shape
    (0, (50, 8))
    """
    return _bootstrap(
        self, n_rep, kind, rng, groups, progress=progress, n_jobs=n_jobs, **fit_options
    )


def jackknife(
    self: SelectionResults,
    *,
    groups: Any = None,
    progress: bool = False,
    n_jobs: int | None = None,
    **fit_options: Any,
) -> JackknifeResults:
    """Refit without each row, or without each cluster where there are clusters.

    Parameters
    ----------
    groups : optional
        Clusters as in ``cov_kwds``; by default those of the fit.
    progress : bool
        Show a bar.
    n_jobs, **fit_options
        As in :meth:`bootstrap`.
    """
    return _jackknife(self, groups, progress=progress, n_jobs=n_jobs, **fit_options)


def simulation_error(
    self: SelectionResults, n_sets: int = 20, *, progress: bool = False
) -> SimulationError:
    """Refit with independent sets of draws: how much the estimates depend on them.

    Afterwards ``summary()`` shows each parameter's simulation error too.

    Parameters
    ----------
    n_sets : int
        Sets of draws.
    progress : bool
        Show a bar.
    """
    self._simulation_error = _simulation_error(self, n_sets, progress=progress)
    return self._simulation_error


def multistart(self: SelectionResults) -> pd.DataFrame:
    """Where the search for the maximum climbed from, and where each climb led.

    One row for each, the best first, by the error correlation; ``fit(n_starts=50)`` tries that
    many values of the dependence. :attr:`maxima` shows the distinct ends.
    """
    rows = [
        {
            "start_error_corr": climb.start,
            "error_corr": climb.end,
            "llf": climb.value,
            "status": climb.status.name.lower(),
            "iterations": climb.n_iter,
        }
        for climb in self.fit_info.climbs
    ]
    if not rows:
        raise AbsentError("multistart needs method='newton' and no start_params")
    return pd.DataFrame(rows).sort_values("llf", ascending=False, ignore_index=True)


def _codes(self: SelectionResults, groups: Any) -> tuple[NDArray[np.int64], ...]:
    return group_codes(groups, self.model.design, self.model.frame)


def _refit_influence(self: SelectionResults) -> Floats | None:
    """Influence of every row on estimates whose every step is repeated, (n, P)."""
    return self._param_influence()
