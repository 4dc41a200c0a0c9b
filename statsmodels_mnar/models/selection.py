"""What the selection models share: data, likelihood, fitting, predictions, repeat."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from statsmodels.base.model import GenericLikelihoodModel

from ..design import (
    Design,
    check_design,
    check_outcome_varies,
    check_selection_varies,
    check_width,
    design_from_arrays,
    design_from_formula,
)
from ..design.chunks import PartitionedDesign, SavedDesign, recipe_from_formula
from ..design.sources import find_source
from ..design.terms import Terms
from ..design.values import as_floats, as_frame, in_memory, owned
from ..errors import DesignError, NotInMemoryError
from ..kernel.integration import Integration, as_integration
from ..kernel.links import LOGIT, Link
from ..kernel.rows import Moments, Rows, joint_ridge, resolve_device
from ..kernel.threads import as_users, one_thread
from ..large.build import Execution, Frames, build
from ..large.partitions import PartitionedObjective, Passes, in_parts
from ..optimize.binary import Independent, constants, fit_independent
from ..optimize.levels import Effects
from ..optimize.maximize import Method, as_optimizer, check_options, stops_early
from ..optimize.objective import Adjustment, Objective
from ..optimize.solution import Callback, Status, Step
from ..post.covariance import check_cov_type, read_groups
from ..post.dependence import Normalization, Parametrized, check_names
from ..post.door import INSIDE
from ..results.fitted import SelectionResults, SelectionResultsWrapper
from ..results.inference import warn_about
from ..tools import progress_bar
from ..types import Floats
from . import free, penalised, repeat, scoring, search


class SelectionModel(GenericLikelihoodModel):
    """A binary outcome observed only for selected rows; see the subclasses."""

    design: Design  # or a PartitionedDesign in its place
    endog_select: Any  # (n,), or None where the rows are in partitions, as all below
    exog_select: Any  # (n, k)
    offset: Any  # (n,)
    offset_select: Any
    link: Link = LOGIT  # of the outcome given its errors
    _default_penalty: ClassVar[float] = 0.0
    _faces: ClassVar[dict[Status, Normalization]] = {
        Status.RHO_PLUS: "loading",
        Status.RHO_MINUS: "loading",
        Status.SIGMA_INFINITE: "probit",
        Status.SIGMA_ZERO: "independent",
        Status.FLAT: "loading",  # with one dependence parameter; where that is flat, it is held
    }
    _results_class: ClassVar[type[SelectionResults]] = SelectionResults
    _held_ridge: Floats | None = None  # of a refit under other weights
    _penalties: Floats | None = None  # of the penalised terms, once they are known
    _adjustment: Adjustment | None = None  # of the dependence beside them
    effects: Effects | None = None  # of a fit, of the factor that is apart
    _quiet: bool = False  # one of many fits, whose warnings nobody could read
    _form_by_default: bool = False  # nobody named the normalization
    _default_normalization: ClassVar[Normalization] = "loading"
    _set_up_keywords: ClassVar[tuple[str, ...]] = ("normalization", "integration", "device")
    _keywords: ClassVar[tuple[str, ...]] = (
        "endog_select", "exog_select", "normalization", "integration", "device",
        "offset", "offset_select", "freq_weights", "prob_weights",
    )  # fmt: skip

    # From start values to the maximum: search, faces, and how exact the integration was.
    _fit_searched = search._fit_searched
    _fit_checked = search._fit_checked
    _fit = search._fit
    _fit_closed = free.fit_closed
    _fit_from = free.fit_from
    maximum = search.maximum
    _check_separation = search._check_separation

    # Penalised terms: their penalties, and fits that estimate these.
    blocks_of = penalised.blocks_of
    outer = penalised.outer
    smoothed = penalised.smoothed
    _fit_penalised = penalised.fit_penalised

    # Many refits of one model as a batch: the same rows under other weights, labels or draws.
    batchable = repeat.batchable
    refit_weights = repeat.refit_weights
    refit_resampled = repeat.refit_resampled
    _refit_resamples = repeat._refit_resamples
    refit_draws = repeat.refit_draws

    # What a robust covariance needs of rows in partitions, and statsmodels' fit of zeros.
    meat_in_partitions = repeat.meat_in_partitions
    _fit_zeros = repeat.fit_zeros

    # Probabilities and indices at given parameters, and the designs of new data they need.
    predict = scoring.predict
    quantity = scoring.quantity
    designs = scoring.designs
    _matrix = scoring._matrix
    offsets_for = scoring.offsets_for
    levels_for = scoring.levels_for
    design_for = scoring.design_for

    def __init__(
        self,
        endog: Any,
        exog: Any,
        endog_select: Any = None,
        exog_select: Any = None,
        *,
        normalization: Normalization | None = None,
        integration: str | Integration = "quadrature",
        device: str | torch.device = "auto",
        missing: Any = "none",
        hasconst: bool | None = None,
        offset: Any = None,
        offset_select: Any = None,
        freq_weights: Any = None,
        prob_weights: Any = None,
        terms: Terms = None,
        terms_select: Terms = None,
    ) -> None:
        design = design_from_arrays(
            endog, exog, endog_select, exog_select, missing=missing, offset=offset,
            offset_select=offset_select, freq_weights=freq_weights, prob_weights=prob_weights,
            terms=terms, terms_select=terms_select,
        )  # fmt: skip
        labelled_frames = any(isinstance(v, pd.Series | pd.DataFrame) for v in (endog, exog))
        self._set_up(
            design,
            normalization=normalization,
            integration=integration,
            device=device,
            hasconst=hasconst,
            pandas=labelled_frames,
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
        offset: Any = None,
        offset_select: Any = None,
        freq_weights: Any = None,
        prob_weights: Any = None,
        env: Any = 0,
        execution: Execution | None = None,
        **model_options: Any,
    ) -> Self:
        """Build the model from an outcome and a selection formula.

        Parameters
        ----------
        formula : str
            ``"y ~ x + C(g)"``. Rows whose outcome is missing are unlabelled. ``re(g)`` and
            ``smooth(x)`` are penalised terms, in either formula: normal effects of the levels of
            g, and a spline, see the page on decision-makers.
        select_formula : str
            ``"s ~ x + z"``, or ``"~ x + z"`` for "the outcome is observed".
        data : DataFrame, dask DataFrame, path or pyarrow Dataset
            A path is that of a parquet file or a folder of them. Data that are not in memory stay
            in partitions; see the page on large data. Polars frames are converted.
        subset : array_like, optional
            Rows to use, as in ``data.loc[subset]``; for data in memory.
        missing : {"drop", "raise", "none"}
            What happens to rows with missing covariates, jointly in both equations.
        offset, offset_select, freq_weights, prob_weights : str or array_like, optional
            Column names or values.
        env : int or mapping
            How many frames up the formulas' functions are looked for, or a namespace.
        execution : Execution, optional
            How data in partitions are read, kept and evaluated. With it a DataFrame is cut into
            partitions too.
        **model_options
            Keywords of the class itself: normalization, integration, device, hasconst, and link
            of GreeneSelectionLogit.
        """
        unknown = set(model_options) - {*cls._set_up_keywords, "hasconst"}
        if unknown:
            raise TypeError(
                f"{cls.__name__}.from_formula got unexpected keyword(s) {sorted(unknown)}"
            )
        env = env + 1 if isinstance(env, int) and env >= 0 else env
        roles = {"offset": offset, "offset_select": offset_select}
        roles |= {"freq_weights": freq_weights, "prob_weights": prob_weights}
        if execution is not None and not isinstance(execution, Execution):
            raise TypeError(f"execution={execution!r} must be an Execution, as in Execution()")
        if execution is None and in_memory(data):
            data = owned(as_frame(data))
            design = design_from_formula(
                formula, select_formula, data, subset, missing, env=env, **roles
            )
            model = cls._from_design(design, **model_options)
            model.frame = data
        else:
            how = execution or Execution()
            source = find_source(data, how.partition_rows)
            if subset is not None:
                raise DesignError("subset is for data in memory; select the rows of data before")
            recipe = recipe_from_formula(
                formula, select_formula, source.columns, missing, env=env, **roles
            )
            cls._check_terms(recipe)
            large = build(recipe, source, how, resolve_device(model_options.get("device", "auto")))
            model = cls._from_design(large.design, **model_options)
            model._rows, model._frames = cast(Rows, large.rows), large.frames
            if large.design.penalised:
                model._rows = penalised.penalised_rows(model, model._rows)
        model.formula, model.select_formula = formula, select_formula
        model.offset_columns = (
            offset if isinstance(offset, str) else None,
            offset_select if isinstance(offset_select, str) else None,
        )
        return model

    @classmethod
    def _check_terms(cls, design: Any) -> None:
        """Refuse penalised terms that the model does not take, before its rows are made."""

    @classmethod
    def _from_design(
        cls, design: Design | PartitionedDesign, *, pandas: bool = True, **options: Any
    ) -> Self:
        """Build the model from a design in place of the arrays that ``__init__`` makes one of."""
        model = cls.__new__(cls)
        model._set_up(design, pandas=pandas, **options)
        return model

    def _set_up(
        self,
        design: Design | PartitionedDesign,
        *,
        pandas: bool,
        normalization: Normalization | None = None,
        integration: str | Integration = "quadrature",
        device: str | torch.device = "auto",
        hasconst: bool | None = None,
    ) -> None:
        if hasconst is not None and not isinstance(hasconst, bool | np.bool_):
            raise ValueError(f"hasconst={hasconst!r} must be True, False or None")
        self.integration = as_integration(integration)
        self._form_by_default = normalization is None
        if normalization is None:
            normalization = self._usual_normalization()
        if isinstance(normalization, Mapping):
            normalization = dict(normalization)  # the user may change it later
        self.normalization: Normalization = normalization
        self.device = device
        self._device = resolve_device(device)
        self.parametrized = self.parametrize(normalization, self.integration)
        self.design = cast(Design, design)
        self._rows: Rows | None = None  # or PartitionedRows in their place
        self._frames: Frames | None = None  # of data in partitions
        self._pandas = pandas
        self.frame: pd.DataFrame | None = None  # the data as they were, for columns by name
        self.offset_columns: tuple[str | None, str | None] = (None, None)  # by name, for predict
        if isinstance(design, PartitionedDesign):
            self._set_up_partitioned(design, hasconst)
        else:
            self._set_up_rows(design, pandas, hasconst)
        self._init_keys = list(self._keywords)
        self._data_attr += ["endog_select", "exog_select", "offset", "offset_select"]
        self._data_attr += ["freq_weights", "prob_weights"]
        self.data.ynames = design.outcome_name
        self.data.xnames = list(design.outcome_names)
        extra = [f"select_{name}" for name in design.select_names]
        check_names(design.outcome_names, extra)
        self._set_extra_params_names([*extra, *self.parametrized.names])
        self.k_outcome, self.k_select = len(design.outcome_names), len(design.select_names)
        self.df_model = float(self.k_outcome - self.k_constant)
        self.df_resid = float(self.n_weighted() - self.nparams)
        if self.in_partitions:
            self.endog = self.exog = self.data.endog = self.data.exog = None

    def _set_up_rows(self, design: Design, pandas: bool, hasconst: bool | None) -> None:
        endog: Any = design.y
        exog: Any = design.X
        if pandas:
            endog = pd.Series(design.y, index=design.index, name=design.outcome_name)
            exog = pd.DataFrame(design.X, index=design.index, columns=list(design.outcome_names))
        # The second design, weights and missing rows are handled here, not by statsmodels.
        super().__init__(endog, exog, missing="none", hasconst=hasconst)
        self.endog_select, self.exog_select = design.s, design.W
        self.offset, self.offset_select = design.offset, design.offset_select
        weighted = {design.weight_kind: design.weights}
        self.freq_weights = weighted.get("freq_weights")
        self.prob_weights = weighted.get("prob_weights")

    def _set_up_partitioned(self, design: PartitionedDesign, hasconst: bool | None) -> None:
        """Give statsmodels the names and one row in place of the arrays, which are not there."""
        exog = pd.DataFrame(np.zeros((1, len(design.outcome_names))), columns=design.outcome_names)
        super().__init__(pd.Series([0.0], name=design.outcome_name), exog, hasconst=False)
        constant = design.has_constant if hasconst is None else bool(hasconst)
        self.k_constant = self.data.k_constant = int(constant)
        self.nobs = float(design.nobs)
        self.endog_select = self.exog_select = self.offset = self.offset_select = None
        self.freq_weights = self.prob_weights = None

    def initialize(self) -> None:
        """Do nothing: degrees of freedom are set with the parameters."""

    def _usual_normalization(self) -> Normalization:
        """The form where none was named: one that uses the integration that was asked for.

        Draws, and a number of nodes of one's own, have a use only where sigma and rho are apart;
        the other forms are integrated by a rule of their own.
        """
        rule = self.integration
        if self._default_normalization == "loading" and rule != rule.controlled():
            return "free"
        return self._default_normalization

    def parametrize(self, normalization: Normalization, integration: Integration) -> Parametrized:
        raise NotImplementedError

    def sibling(self, normalization: Normalization, **changes: Any) -> Self:
        """Return a model of the same data under another normalization; it shares the rows."""
        other = self.rebuilt(self.design, normalization=normalization, **changes)
        other._rows, other._frames, other._quiet = self._rows, self._frames, self._quiet
        other._held_ridge, other._penalties = self._held_ridge, self._penalties
        other._adjustment = self._adjustment
        other.frame, other.offset_columns = self.frame, self.offset_columns
        for name in ("formula", "select_formula"):
            if hasattr(self, name):
                setattr(other, name, getattr(self, name))
        return other

    def holding(self, normalization: Normalization) -> Self:
        """This model with all of its dependence fixed, for predictions; it works without data."""
        other, data = copy.copy(self), copy.copy(self.data)
        other.__dict__.update(self.__dict__)  # a copy leaves out what a pickle leaves out
        other.normalization, other.data = normalization, data
        other.parametrized = self.parametrize(normalization, self.integration)
        data._cache = dict(data._cache)  # where statsmodels keeps the names
        data.xnames = list(self.param_names[: self.n_coef])
        other.nparams = len(data.xnames)
        return other

    def _quietly(self) -> Self:
        """This model without warnings; filters would be those of other threads too."""
        self._quiet = True
        return self

    def rebuilt(self, design: Design, **changes: Any) -> Self:
        """A model of the same options on another design."""
        options = {name: getattr(self, name) for name in self._set_up_keywords} | changes
        other = self._from_design(design, pandas=self._pandas, **options)
        other._form_by_default = self._form_by_default and "normalization" not in changes
        return other

    def rebuilt_for_refit(self, design: Design) -> Self:
        """A model of a resample: without warnings, and with the ridge of all rows."""
        refit = self.rebuilt(design)._quietly()
        refit._held_ridge = self.ridge_of(self.design)
        refit._penalties, refit._adjustment = self._penalties, self._adjustment
        return refit

    def remove_data(self) -> None:
        """Drop the rows, here and in the design; the formulas stay."""
        self._frames = None
        if self.in_partitions:
            self._rows = None
            return
        nothing = np.empty(0)
        self.design = replace(
            self.design,
            y=nothing,
            s=nothing,
            X=np.empty((0, self.k_outcome)),
            W=np.empty((0, self.k_select)),
            index=pd.RangeIndex(0),
            kept=np.empty(0, dtype=np.int64),
            offset=None,
            offset_select=None,
            weights=None,
            levels=None,
        )
        self._rows = self.frame = None
        getattr(self.data, "_cache", {}).pop("row_labels", None)

    def __dir__(self) -> list[str]:
        """List what users call, without what only the results ask for; that works all the same."""
        return [name for name in super().__dir__() if name not in INSIDE]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_rows": None, "frame": None, "_frames": None}

    # -- the likelihood, as statsmodels asks for it ------------------------------------------------

    @property
    def param_names(self) -> list[str]:
        """Outcome names, ``select_`` names, then the dependence parameters that are estimated."""
        return list(self.exog_names)

    @property
    def n_coef(self) -> int:
        """Number of coefficients of both equations, which the dependence parameters follow."""
        return self.k_outcome + self.k_select

    def n_weighted(self) -> float:
        """Number of observations that the rows stand for."""
        return self.design.counts.observations

    @property
    def rows(self) -> Rows:
        """The rows of the likelihood on the device, in memory or in partitions."""
        return self.plain_rows()

    def plain_rows(self) -> Rows:
        """The rows as they were observed, on which the two equations are fitted apart."""
        if self._rows is None:
            self._rows = self.rows_of(self.design)
            if self.design.penalised:
                self._rows = penalised.penalised_rows(self, self._rows)
        return self._rows

    @property
    def training_design(self) -> Design:
        """The design on which the likelihood is evaluated."""
        return self.design

    def rows_at_hand(self) -> bool:
        """Whether the rows have not been removed."""
        return self.design.nobs > 0 and not (self.in_partitions and self._rows is None)

    def check_rows_at_hand(self) -> None:
        """Raise an error where the rows have been removed."""
        if isinstance(self.design, SavedDesign):
            self.design.refuse("the rows")
        if not self.rows_at_hand():
            raise NotInMemoryError("the data have been removed from this model; build it again")

    def rows_of(self, design: Design) -> Rows:
        """The rows of a design on the device."""
        self.check_rows_at_hand()
        d = design
        return Rows.build(
            d.X, d.W, d.y, d.s, weights=d.weights, offset=d.offset,
            offset_select=d.offset_select, key=d.kept, device=self._device,
            ridge=self.ridge_of(design), level=d.levels,
        )  # fmt: skip

    def ridge_of(self, design: Design) -> Floats:
        """Return the matrix of the ridge penalty, (p + k, p + k); refits keep that of all rows."""
        if self._held_ridge is not None:
            return self._held_ridge
        outcome, select = (Moments.of(v, design.weights) for v in (design.X, design.W))
        return joint_ridge(outcome, select)

    @property
    def in_partitions(self) -> bool:
        return isinstance(self.design, PartitionedDesign)

    def objective(self, penalty: float = 0.0) -> Objective:
        """Return the objective over the rows, in memory or in partitions.

        It is less the penalties of the model's terms.
        """
        form = self.parametrized.form
        if self.in_partitions:
            return cast(Objective, PartitionedObjective(in_parts(self.rows), form, penalty=penalty))
        return Objective(self.rows, form, penalty=penalty)

    def _likelihood(self) -> Objective:
        """The objective without any penalty."""
        objective = self.objective()
        return objective if objective.smoothing is None else objective.smoothed(None)

    def constant_rows(self) -> Rows:
        """The rows with constants in place of all columns."""
        return self.plain_rows().derive(constants)

    def _in_order(self, params: Any, argument: str = "params") -> Floats:
        """Estimated parameters as an array; a Series with their names is read by them."""
        names = self.param_names
        if isinstance(params, pd.Series) and set(params.index) == set(names):
            params = params[names]
        return as_floats(params, argument)

    def expand(self, params: Any) -> Floats:
        """Return all parameters of the form, estimated and fixed, in their order."""
        params = self._in_order(params)
        if params.shape != (self.nparams,):
            raise ValueError(
                f"params must be {self.nparams} numbers ({', '.join(self.param_names)}), got shape "
                f"{params.shape}"
            )
        return np.concatenate(
            [params[: self.n_coef], self.parametrized.values(params[self.n_coef :])]
        )

    @property
    def estimated(self) -> NDArray[np.bool_]:
        """(P,) which parameters of the form are estimated."""
        coef = np.ones(self.n_coef, dtype=bool)
        return np.concatenate([coef, self.parametrized.free])

    def loglike(self, params: Any) -> float:
        """Log-likelihood at ``params``, weighted."""
        objective = self.objective()
        if objective.smoothing is None and not self.design.penalised:
            return float(objective.evaluate(self.expand(params), 0).value[0])
        return objective.plain_value(self.expand(params))

    def loglikeobs(self, params: Any) -> Floats:
        """Log-likelihood of every row at ``params``, (n,), times its weight."""
        values = self.objective().row_values(self.expand(params))[0].cpu().numpy()
        return values if self.design.weights is None else values * self.design.weights

    def score(self, params: Any) -> Floats:
        """Gradient of the log-likelihood at ``params``, (P,)."""
        score = self._likelihood().evaluate(self.expand(params), 1).score
        assert score is not None
        return score[0].cpu().numpy()[self.estimated]

    def score_obs(self, params: Any) -> Floats:
        """Score of every row at ``params``, (n, P), times its weight."""
        scores = self._row_scores(params)
        weights = self.design.weights
        return scores if weights is None else weights[:, None] * scores

    def _row_scores(self, params: Any) -> Floats:
        scores = self.objective().row_scores(self.expand(params)).cpu().numpy()
        return scores[:, self.estimated]

    def hessian(self, params: Any) -> Floats:
        """Second derivatives of the log-likelihood at ``params``, (P, P)."""
        hessian = self._likelihood().evaluate(self.expand(params), 2).hessian
        assert hessian is not None
        return hessian[0].cpu().numpy()[np.ix_(self.estimated, self.estimated)]

    # -- fitting -----------------------------------------------------------------------------------

    def _independent(self, method: Method, penalty: float, started: bool) -> Independent:
        """The two equations fitted apart; ``started`` where they are not needed as start values."""
        return fit_independent(self.rows, link=self.link, penalty=penalty)

    @one_thread()
    def fit(
        self,
        start_params: Any = None,
        method: Method = "newton",
        maxiter: int | None = None,
        cov_type: str | None = None,
        cov_kwds: dict[str, Any] | None = None,
        disp: bool = False,
        penalty: float = 0.0,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
        **options: Any,
    ) -> SelectionResultsWrapper:
        """Estimate the model by maximum likelihood.

        Parameters
        ----------
        start_params : array_like, optional
            In the order of ``param_names``. By default the dependence is scanned, and Newton climbs
            from each top of the profile that is seen; with start values it climbs from them only.
        method : {"newton", "bfgs", "lbfgs", "sgd"}
            "newton" has the exact Hessian and a trust region; it converges within 1e-6 standard
            errors of the maximum, "bfgs" and "lbfgs" within 2e-4. "sgd" is the paper's
            early-stopped gradient descent, whose result is not a maximum; it estimates sigma and
            rho both, and takes normalization="free" by itself where the model names none.
        maxiter : int, optional
            Limit on iterations; by default 100 (newton), 1,000 (bfgs, lbfgs), 10,000 (sgd).
        cov_type : {"nonrobust", "OPG", "HC0", "HC1", "cluster"}, optional
            By default "nonrobust", with ``prob_weights`` "HC0".
        cov_kwds : dict, optional
            For "cluster": ``groups`` (an array or Series over the rows; two for two ways) and
            ``use_correction``.
        disp : bool
            Show progress.
        penalty : float
            alpha, of a ridge on the coefficients of standardized columns: in each equation
            ``n * alpha/2 * (m^2 + sum of v_j b_j^2)`` is subtracted from the log-likelihood, m the
            mean of the index and v_j the variance of column j. Units and origins of the columns
            do not matter, and on standardized ones it is the paper's weight decay.
        callback : callable, optional
            Called after each iteration with a ``Step``: iteration, value and score_norm.
        checkpoint : str or Path, optional
            For data in partitions: a file that is written after each pass over them, and from
            which the same call goes on after an interruption.
        **options
            gtol (newton, bfgs, lbfgs); n_starts (newton: values of the dependence from which the
            maximum is sought, by default seven; see ``results.maxima``; dependence, of models
            with ``re()`` or ``smooth()``: "marginal", by default, estimates it with the effects
            integrated out, "joint" at the mode of all parameters, as GJRM does); lr, weight_decay,
            tol, batch_size, rng, redraw (sgd).

        Returns
        -------
        SelectionResults
        """
        return self._estimate(
            start_params, method, maxiter, cov_type, cov_kwds, disp, penalty, callback, checkpoint,
            options,
        )  # fmt: skip

    def _estimate(
        self,
        start_params: Any,
        method: Method,
        maxiter: int | None,
        cov_type: str | None,
        cov_kwds: dict[str, Any] | None,
        disp: bool,
        penalty: float,
        callback: Callback | None,
        checkpoint: str | Path | None,
        options: dict[str, Any],
        **training: Any,
    ) -> SelectionResultsWrapper:
        """Check what ``fit`` was given, maximise, and build the results.

        ``training`` are the options of :meth:`_trained`; the results record them too.
        """
        model = self.sibling("free") if self._needs_free_form(method) else self
        sampling = model.design.weight_kind == "prob_weights"
        if cov_type is not None:
            check_cov_type(cov_type, model._results_class._more_cov_types, sampling=sampling)
        check_options(method, options, penalty, maxiter, callback)
        model.check_rows_at_hand()
        cov_type = cov_type or model._default_cov_type(method)
        cov_kwds = dict(cov_kwds or {})
        read_groups(cov_type, cov_kwds, model)  # what is wrong with them is said before the fit
        optimizer = as_optimizer(method)
        if model.in_partitions and not optimizer.in_partitions:
            raise NotInMemoryError(
                "method='sgd' draws batches from all rows, which are in partitions; use 'newton'"
            )
        if "dependence" in options and not model.design.penalised:
            raise ValueError(
                f"dependence={options['dependence']!r} is for models with re() or smooth() terms"
            )
        penalised = penalty > 0 or not optimizer.at_maximum
        if penalised:  # collinear columns and separation do no harm there
            check_selection_varies(model.design.counted)
            check_outcome_varies(model.design.counted)
            if optimizer.at_maximum:
                check_width(model.design.counted)
        else:
            check_design(model.design.counted)
        if start_params is not None:
            start_params = model._in_order(start_params, "start_params")
            if not np.isfinite(start_params).all():
                raise ValueError("start_params has values that are not finite")
            model.expand(start_params)
        if maxiter is not None:
            options["maxiter"] = maxiter
        given = options | training
        with model._progress(disp, method, maxiter, checkpoint) as show:
            model = model._trained(method, penalty, **training)
            options["callback"] = _both(as_users(callback), show)
            maximised = model._fit_penalised if model.design.penalised else model._fit_searched
            fit = maximised(start_params, method, penalty, options)
            fit = replace(fit, options=given, asked=model.normalization)
            results = model._results_class(fit, cov_type, cov_kwds)
        if not model._quiet:
            model._warn_about(results)
        return SelectionResultsWrapper(results)

    def _trained(self, method: str, penalty: float) -> Self:
        """The model whose likelihood is maximised; others train classifiers before."""
        return self

    def _warn_about(self, results: SelectionResults) -> None:
        """Say what a user must know before reading a number."""
        warn_about(results)

    def _needs_free_form(self, method: str) -> bool:
        """Whether the paper's optimiser is to fit a model whose normalization was not named."""
        usual = self._form_by_default and self.normalization == "loading"
        return usual and stops_early(method)

    def _progress(
        self, disp: bool, method: str, maxiter: int | None, checkpoint: str | Path | None
    ) -> AbstractContextManager[Callback | None]:
        """What surrounds a fit: a progress bar and, for rows in partitions, a checkpoint."""
        if self.in_partitions:
            return Passes(in_parts(self.plain_rows()), disp, checkpoint)
        if checkpoint is not None:
            raise ValueError(
                "checkpoint is for data in partitions; give from_formula an execution=Execution()"
            )
        return _iterations(disp, method, maxiter)

    def check_refit_options(
        self,
        method: str,
        penalty: float,
        maxiter: int | None = None,
        start_params: Any = None,
        first_stage_tol: Any = None,
        **options: Any,
    ) -> None:
        """Refuse what ``fit`` would refuse, before many fits run."""
        check_options(method, options, penalty, maxiter)
        if start_params is not None:
            self.expand(start_params)

    def _default_cov_type(self, method: str = "newton") -> str:
        return "HC0" if self.design.weight_kind == "prob_weights" else "nonrobust"

    def _sgd_objective(self, options: dict[str, Any]) -> Objective:
        raise ValueError(
            f"method='sgd' is the paper's optimiser for sigma and rho free; {type(self).__name__} "
            "does not have them"
        )


def _both(first: Callback | None, second: Callback | None) -> Callback | None:
    if first is None or second is None:
        return first or second

    def call(step: Step) -> None:
        first(step)
        second(step)

    return call


@contextmanager
def _iterations(show: bool, method: str, total: int | None) -> Iterator[Callback | None]:
    """A bar over the iterations of a fit, and what moves it on."""
    with progress_bar(show, method, total, unit="it") as bar:

        def move(step: Step) -> None:
            bar.set_postfix_str(f"log-lik {step.value:.6f}, |score| {step.score_norm:.1e}")
            bar.update()

        yield move if show else None
