"""What the baselines share: the interface of the selection models, and plain results."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from scipy.special import expit, ndtr
from scipy.stats import norm
from statsmodels.iolib.summary2 import Summary
from statsmodels.tools.sm_exceptions import ConvergenceWarning

from ..design import (
    Design,
    check_levels,
    check_outcome_varies,
    check_rank,
    check_separation,
    check_some_selected,
    design_from_arrays,
    design_from_formula,
    rebuild,
    refuse_penalised,
)
from ..design.values import new_matrix
from ..errors import listing, warn
from ..kernel.links import LOGIT, PROBIT, Link
from ..kernel.rows import Moments
from ..optimize.binary import BinaryFit, fit_binary
from ..tools import EscapedSummary2
from ..types import Floats

LINKS: dict[str, Link] = {"logit": LOGIT, "probit": PROBIT}
CDF = {"logit": expit, "probit": ndtr}


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimates of a fit, with what its results need beside them."""

    params: Floats  # (p,)
    cov: Floats | None  # (p, p); None where no standard errors are defined
    converged: bool


class Baseline:
    """A classifier of the outcome with the interface of the selection models.

    Built from ``(endog, exog, endog_select, exog_select)`` or two formulas, fitted with ``fit()``,
    so that a loop can run over baselines and selection models alike. See the subclasses.

    Parameters
    ----------
    endog : array_like
        (n,) outcome, 0/1; NaN where unlabelled.
    exog : array_like
        (n, p) outcome design; add a constant yourself.
    endog_select : array_like, optional
        (n,) 1 where labelled. By default the rows whose outcome is known.
    exog_select : array_like, optional
        (n, k) selection design; by default ``exog``.
    missing : {"none", "raise", "drop"}
        What happens to rows with missing covariates.
    freq_weights, prob_weights : array_like, optional
        (n,) how many identical rows a row stands for, or its inverse sampling probability. RFLearn
        and RobustBiasAware take none.
    **options
        Keywords of a subclass's own.

    Examples
    --------
    >>> from statsmodels_mnar.baselines import IPWLogit, NaiveLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000, rng=1)
    >>> for baseline in (NaiveLogit, IPWLogit):
    ...     results = baseline.from_formula(sim.formula, sim.select_formula, sim.data).fit()
    ...     print(f"{baseline.__name__} {results.predict(sim.data).mean():.2f}")
    NaiveLogit 0.47
    IPWLogit 0.52
    """

    _weighted: ClassVar[bool] = True  # takes weights
    _all_labelled: ClassVar[bool] = False  # is given the outcome of every row
    _link: str = "logit"

    def __init__(
        self,
        endog: Any,
        exog: Any,
        endog_select: Any = None,
        exog_select: Any = None,
        *,
        missing: Any = "none",
        freq_weights: Any = None,
        prob_weights: Any = None,
        **options: Any,
    ) -> None:
        weights = {"freq_weights": freq_weights, "prob_weights": prob_weights}
        self._check_keywords(weights, options)
        labelled = None if self._all_labelled else endog_select
        design = design_from_arrays(endog, exog, labelled, exog_select, missing=missing, **weights)
        self._set_up(design, **options)

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Show what a subclass takes in its signature: its own options, and weights if it does."""
        super().__init_subclass__(**keywords)
        _, *common, _ = inspect.signature(Baseline.__init__).parameters.values()
        taken = [each for each in common if cls._weighted or not each.name.endswith("_weights")]
        cls.__signature__ = inspect.Signature([*taken, *cls._own_options()])  # type: ignore[attr-defined]

    @classmethod
    def _own_options(cls) -> list[inspect.Parameter]:
        """The keywords of ``_set_up``."""
        _, _, *options = inspect.signature(cls._set_up).parameters.values()
        return options

    @classmethod
    def _check_keywords(cls, weights: dict[str, Any], options: dict[str, Any]) -> None:
        """Refuse weights that are not taken, and keywords that nobody reads."""
        given = [name for name, values in weights.items() if values is not None]
        if given and not cls._weighted:
            raise ValueError(f"{given[0]}: {cls.__name__} takes no weights")
        known = [option.name for option in cls._own_options()]
        unknown = [name for name in options if name not in known]
        if unknown:
            raise TypeError(
                f"{cls.__name__} got an unexpected keyword argument {unknown[0]!r}; its options "
                f"are {listing([*known, 'missing'])}"
            )

    @classmethod
    def from_formula(
        cls,
        formula: str,
        select_formula: str,
        data: Any,
        subset: Any = None,
        *,
        missing: Any = "drop",
        freq_weights: Any = None,
        prob_weights: Any = None,
        env: Any = 0,
        **model_options: Any,
    ) -> Self:
        """Build the model from an outcome and a selection formula.

        Parameters
        ----------
        formula : str
            ``"y ~ x + C(g)"``. Rows whose outcome is missing are unlabelled.
        select_formula : str
            ``"s ~ x + z"``, or ``"~ x + z"`` for "the outcome is observed".
        data : DataFrame
        subset : array_like, optional
            Rows to use, as in ``data.loc[subset]``.
        missing : {"drop", "raise", "none"}
            What happens to rows with missing covariates, jointly in both equations.
        freq_weights, prob_weights : str or array_like, optional
            Column names or values.
        env : int or mapping
            How many frames up the formulas' functions are looked for, or a namespace.
        **model_options
            Keywords of the class itself.
        """
        env = env + 1 if isinstance(env, int) and env >= 0 else env
        weights = {"freq_weights": freq_weights, "prob_weights": prob_weights}
        cls._check_keywords(weights, model_options)
        if cls._all_labelled:
            select_formula = "~" + select_formula.partition("~")[2]
        model = cls.__new__(cls)
        design = design_from_formula(
            formula, select_formula, data, subset, missing, env=env, **weights
        )
        refuse_penalised(design, cls.__name__)
        model._set_up(design, **model_options)
        return model

    def _set_up(self, design: Design) -> None:
        """Keep the data; a subclass checks and keeps its own options too."""
        self.design = design

    @property
    def exog_names(self) -> list[str]:
        """Names of the outcome design's columns, and of the parameters."""
        return list(self.design.outcome_names)

    @property
    def _labelled(self) -> tuple[Floats, Floats]:
        """Outcome and design of the labelled rows."""
        seen = self.design.labelled
        return self.design.y[seen], self.design.X[seen]

    @property
    def _labelled_weights(self) -> Floats | None:
        """Weights of the labelled rows, if there are any."""
        weights = self.design.weights
        return None if weights is None else weights[self.design.labelled]

    def _fit_labelled(self, penalty: float, weight: Floats | None = None) -> BinaryFit:
        """The regression of the labelled rows, with their own weights or those given."""
        y, X = self._labelled
        return regress(
            y, X, self.design.outcome_names, "outcome", link=self._link, penalty=penalty,
            weight=self._labelled_weights if weight is None else weight,
        )  # fmt: skip

    def _check_outcome(self, penalty: float) -> None:
        """Refuse what has no maximum before any work; collinear columns bear a penalty."""
        known = isinstance(penalty, int | float | np.integer | np.floating)
        if not (known and np.isfinite(penalty) and penalty >= 0):
            raise ValueError(f"penalty={penalty!r} must be a finite number of at least zero")
        counted = self.design.counted
        check_some_selected(counted)
        check_outcome_varies(counted)
        if penalty == 0:
            check_levels(counted)
            # One column for the selection design, which the outcome equation does not read.
            one = np.ones((counted.nobs, 1))
            check_rank(replace(counted, W=one, select_names=("const",)))


class BaselineResults:
    """Estimates of a baseline; ``fit()`` of a baseline makes it.

    Parameters
    ----------
    model : Baseline
        What was fitted.
    estimate : Estimate
        Parameters, their covariance if there is one, and whether the fit converged.
    method : str
        In words, for the summary.
    cov_type : str or None
        Kind of covariance.

    Attributes
    ----------
    params, bse, tvalues, pvalues : Series
        Of the outcome equation. All but ``params`` are NaN where no standard errors are defined.
    nobs, nobs_selected : int
    converged : bool

    Examples
    --------
    >>> from statsmodels_mnar.baselines import NaiveLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(2_000, rng=1)
    >>> results = NaiveLogit.from_formula(sim.formula, sim.select_formula, sim.data).fit()
    >>> list(results.tidy().columns[:4])
    ['equation', 'term', 'estimate', 'std_error']
    """

    def __init__(self, model: Any, estimate: Estimate, method: str, cov_type: str | None) -> None:
        self.model = model
        self.method = method
        self.cov_type = cov_type
        self.converged = estimate.converged
        if not self.converged:
            warn(
                f"{type(model).__name__} did not converge. Try a ridge penalty, fewer columns, or "
                "a larger maxiter where fit takes one.",
                ConvergenceWarning,
            )
        self.nobs = model.design.nobs
        self.nobs_selected = int(model.design.labelled.sum())
        self.params = pd.Series(estimate.params, index=model.exog_names, name="params")
        cov = np.full((len(self.params),) * 2, np.nan) if estimate.cov is None else estimate.cov
        self._cov = pd.DataFrame(cov, index=self.params.index, columns=self.params.index)

    def cov_params(self) -> pd.DataFrame:
        """Covariance matrix of the estimates."""
        return self._cov.copy()

    @property
    def bse(self) -> pd.Series:
        """Standard errors."""
        return pd.Series(np.sqrt(np.diag(self._cov)), index=self.params.index, name="bse")

    @property
    def tvalues(self) -> pd.Series:
        """Estimates over their standard errors."""
        return (self.params / self.bse).rename("tvalues")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided P-values of the hypotheses that a parameter is zero."""
        values = 2.0 * norm.sf(np.abs(self.tvalues))
        return pd.Series(values, index=self.params.index, name="pvalues")

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Normal intervals of the parameters at level 1 - ``alpha``."""
        if not 0.0 < alpha < 1.0:
            raise ValueError(f"alpha={alpha!r} must lie between 0 and 1")
        half = norm.isf(alpha / 2.0) * self.bse
        return pd.DataFrame({0: self.params - half, 1: self.params + half})

    def predict(
        self,
        exog: Any = None,
        exog_select: Any = None,
        transform: bool = True,
        *,
        which: str = "mean",
    ) -> Any:
        """P(y = 1 | x) in the population, or the index.

        Parameters
        ----------
        exog : DataFrame or array_like, optional
            For a model built from formulas: new data. Otherwise the outcome design. By default the
            model's own rows.
        exog_select : ignored
            There so that baselines and selection models can be called alike.
        transform : bool
            Pass ``exog`` through the formula.
        which : {"mean", "linear"}
            P(y = 1 | x), or the index (of a logit: the log odds).
        """
        spec = self.model.design.outcome_spec
        if exog is not None and transform and spec is not None:
            exog = rebuild(spec, exog)
        if which not in ("mean", "linear"):
            raise ValueError(f"which={which!r} is unknown; use 'mean' or 'linear'")
        index = self._index(as_design(exog, self.model.design))
        values = index if which == "linear" else CDF[self.model._link](index)
        if exog is None and spec is not None:
            return pd.Series(values, index=self.model.design.index)
        return pd.Series(values, index=exog.index) if hasattr(exog, "index") else values

    def _index(self, X: Floats) -> Floats:
        """The index at an outcome design."""
        return X @ self.params.to_numpy()

    def tidy(self, alpha: float = 0.05) -> pd.DataFrame:
        """One row for each parameter, as ``tidy`` of the models; intervals at 1 - ``alpha``."""
        interval = self.conf_int(alpha)
        return pd.DataFrame(
            {
                "equation": "outcome",
                "term": list(self.params.index),
                "estimate": self.params,
                "std_error": self.bse,
                "statistic": self.tvalues,
                "p_value": self.pvalues,
                "conf_low": interval[0],
                "conf_high": interval[1],
            }
        ).rename_axis("parameter")

    def summary(self, alpha: float = 0.05) -> Summary:
        """A table of the estimates, with intervals at level 1 - ``alpha`` and notes to read it."""
        table = self.tidy(alpha).drop(columns=["equation", "term"])
        limits = f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"
        table.columns = ["Coef.", "Std.Err.", "z", "P>|z|", *limits]
        result = EscapedSummary2()
        result.add_title(f"{type(self.model).__name__}: {self.model.design.outcome_name}")
        result.add_dict(
            {
                "No. rows": str(self.nobs),
                "Labelled": str(self.nobs_selected),
                "Method": self.method,
                "Converged": str(self.converged),
                "Covariance": self.cov_type or "none",
                **self._header(),
            }
        )
        result.add_df(table)
        for note in self._notes():
            result.add_text(note)
        return result

    def _header(self) -> dict[str, Any]:
        """More entries of the summary's header."""
        return {}

    def _notes(self) -> list[str]:
        """Sentences below the summary's table."""
        return []


def as_design(exog: Any, design: Design) -> Floats:
    """(m, p) outcome design: the one given, or the model's own."""
    return design.X if exog is None else new_matrix(exog, design.outcome_names, "exog")


def columns(X: Floats) -> torch.Tensor:
    """A design as the engine's binary regressions read it, (p, n)."""
    return torch.as_tensor(np.ascontiguousarray(X.T))


def regress(
    y: Floats,
    X: Floats,
    names: tuple[str, ...],
    equation: str,
    *,
    link: str = "logit",
    weight: Floats | None = None,
    penalty: float = 0.0,
    standardized: bool = True,
) -> BinaryFit:
    """A binary regression at its maximum; explains why where there is none.

    The ridge is that of the selection models, on the coefficients of ``standardized`` columns:
    units and origins of the columns do not matter. Otherwise it is on the coefficients themselves.
    """
    ridge = torch.as_tensor(Moments.of(X, weight).ridge) if penalty and standardized else None
    fit = fit_binary(
        columns(X), torch.as_tensor(y), LINKS[link], ridge=ridge,
        weight=None if weight is None else torch.as_tensor(weight), penalty=penalty,
    )  # fmt: skip
    if not fit.converged and penalty == 0:
        counted = slice(None) if weight is None else weight > 0
        check_separation(y[counted], X[counted], names, equation)
    return fit
