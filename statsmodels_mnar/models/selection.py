"""What the selection models share: data, likelihood, fitting, predictions, refits."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

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
    check_separation,
    check_width,
    design_from_arrays,
    design_from_formula,
    rebuild,
)
from ..design.chunks import PartitionedDesign, SavedDesign, recipe_from_formula
from ..design.sources import find_source
from ..design.values import as_floats, as_frame, check_unique, new_matrix, owned
from ..errors import DesignError, NotInMemoryError
from ..kernel.forms import FreeForm
from ..kernel.integration import Integration, Quadrature, Simulation, as_integration
from ..kernel.rows import Moments, Rows, joint_ridge, resolve_device
from ..kernel.threads import as_users, one_thread, one_thread_a_step
from ..large.build import Execution, Frames, build, constants, find_clusters, meat_by_keys
from ..large.partitions import PartitionedObjective, PartitionedRows
from ..large.resamples import ResampledObjective, Resamples, draw_resamples
from ..optimize.batches import rekeyed
from ..optimize.binary import Independent, fit_independent
from ..optimize.maximize import Method, maximize, maximize_many
from ..optimize.objective import Objective
from ..optimize.solution import Callback, Climb, Solution, Status
from ..post.accuracy import Accuracy, measure
from ..post.covariance import Meat, check_cov_type, read_groups
from ..post.dependence import dependence
from ..post.prediction import NEEDS_OUTCOME, NEEDS_SELECT, Designs, Quantity, check_which
from ..post.profile import comparable
from ..results.fitted import Fit, SelectionResults, SelectionResultsWrapper
from ..types import Floats
from .fitting import Passes, both, check_names, check_options, iterations, named, warn_about
from .normalization import Normalization, Parametrized
from .search import Place, at_corner, humps, label, search, search_interior, tops

SEPARATION_ROWS = 20_000  # of a sample in which separation of data in partitions is looked for


class SelectionModel(GenericLikelihoodModel):
    """A binary outcome observed only for selected rows; see the subclasses."""

    design: Any  # a Design, or a PartitionedDesign
    endog_select: Any  # (n,), or None where the rows are in partitions, as all below
    exog_select: Any  # (n, k)
    offset: Any  # (n,)
    offset_select: Any
    probit_outcome: ClassVar[bool] = False
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
    _quiet: bool = False  # one of many fits, whose warnings nobody could read
    _form_by_default: bool = False  # nobody named the normalization
    _default_normalization: ClassVar[Normalization] = "loading"
    _set_up_keywords: ClassVar[tuple[str, ...]] = ("normalization", "integration", "device")
    _keywords: ClassVar[tuple[str, ...]] = (
        "endog_select", "exog_select", "normalization", "integration", "device",
        "offset", "offset_select", "freq_weights", "prob_weights",
    )  # fmt: skip

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
    ) -> None:
        design = design_from_arrays(
            endog, exog, endog_select, exog_select, missing=missing, offset=offset,
            offset_select=offset_select, freq_weights=freq_weights, prob_weights=prob_weights,
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
            ``"y ~ x + C(g)"``. Rows whose outcome is missing are unlabelled.
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
            Keywords of the class itself: normalization, integration, device, hasconst.
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
        how = execution or Execution()
        source = find_source(data, how.partition_rows, split=execution is not None)
        model = cls.__new__(cls)
        if source is None:
            data = owned(as_frame(data))
            design = design_from_formula(
                formula, select_formula, data, subset, missing, env=env, **roles
            )
            model._set_up(design, pandas=True, **model_options)
            model.frame = data
        else:
            if subset is not None:
                raise DesignError("subset is for data in memory; select the rows of data before")
            recipe = recipe_from_formula(
                formula, select_formula, source.columns, missing, env=env, **roles
            )
            large = build(recipe, source, how, resolve_device(model_options.get("device", "auto")))
            model._set_up(large.design, pandas=True, **model_options)
            model._rows, model._frames = large.rows, large.frames
        model.formula, model.select_formula = formula, select_formula
        model.offset_columns = (
            offset if isinstance(offset, str) else None,
            offset_select if isinstance(offset_select, str) else None,
        )
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
        self.design = design
        self._rows: Rows | PartitionedRows | None = None
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
        """statsmodels sees the names and one row; the arrays of the data are not there."""
        exog = pd.DataFrame(np.zeros((1, len(design.outcome_names))), columns=design.outcome_names)
        super().__init__(pd.Series([0.0], name=design.outcome_name), exog, hasconst=False)
        constant = design.has_constant if hasconst is None else bool(hasconst)
        self.k_constant = self.data.k_constant = int(constant)
        self.nobs = float(design.nobs)
        self.endog_select = self.exog_select = self.offset = self.offset_select = None
        self.freq_weights = self.prob_weights = None

    def initialize(self) -> None:
        """Degrees of freedom are set with the parameters; statsmodels would guess them."""

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
        """The same data under another normalization; the rows on the device are shared."""
        other = self.rebuilt(self.design, normalization=normalization, **changes)
        other._rows, other._frames, other._quiet = self._rows, self._frames, self._quiet
        other._held_ridge = self._held_ridge
        other.frame, other.offset_columns = self.frame, self.offset_columns
        for name in ("formula", "select_formula"):
            if hasattr(self, name):
                setattr(other, name, getattr(self, name))
        return other

    def holding(self, normalization: Normalization) -> Self:
        """This model with all of its dependence fixed, for predictions; it works without data."""
        other, data = type(self).__new__(type(self)), copy.copy(self.data)
        other.__dict__.update(self.__dict__)  # copy.copy would leave out what a pickle leaves out
        other.normalization, other.data = normalization, data
        other.parametrized = self.parametrize(normalization, self.integration)
        data._cache = dict(data._cache)  # where statsmodels keeps the names
        data.xnames = list(self.param_names[: self.k_outcome + self.k_select])
        other.nparams = len(data.xnames)
        return other

    def _quietly(self) -> Self:
        """This model without warnings; filters would be those of other threads too."""
        self._quiet = True
        return self

    def rebuilt(self, design: Design, **changes: Any) -> Self:
        """A model of the same options on another design."""
        other = type(self).__new__(type(self))
        options = {name: getattr(self, name) for name in self._set_up_keywords}
        other._set_up(design, pandas=self._pandas, **(options | changes))
        other._form_by_default = self._form_by_default and "normalization" not in changes
        return other

    def rebuilt_for_refit(self, design: Design) -> Self:
        """A model of a resample: without warnings, and with the ridge of all rows."""
        refit = self.rebuilt(design)._quietly()
        refit._held_ridge = self.ridge_of(self.design)
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
        )
        self._rows = self.frame = None
        getattr(self.data, "_cache", {}).pop("row_labels", None)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_rows": None, "frame": None, "_frames": None}

    # -- the likelihood, as statsmodels asks for it ------------------------------------------------

    @property
    def param_names(self) -> list[str]:
        """Outcome names, ``select_`` names, then the dependence parameters that are estimated."""
        return list(self.exog_names)

    def n_weighted(self) -> float:
        """Number of observations that the rows stand for."""
        return self.design.counts.observations

    @property
    def rows(self) -> Any:
        """The data on the device: Rows, or PartitionedRows."""
        if self._rows is None:
            self._rows = self.rows_of(self.training_design)
        return self._rows

    @property
    def training_design(self) -> Design:
        """What the likelihood is evaluated on."""
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

    def rows_of(self, d: Any) -> Rows:
        self.check_rows_at_hand()
        return Rows.build(
            d.X, d.W, d.y, d.s, weights=d.weights, offset=d.offset,
            offset_select=d.offset_select, key=d.kept, device=self._device,
            ridge=self.ridge_of(d),
        )  # fmt: skip

    def ridge_of(self, d: Any) -> Floats:
        """What a penalty multiplies, (p + k, p + k); refits keep that of all rows."""
        if self._held_ridge is not None:
            return self._held_ridge
        return joint_ridge(Moments.of(d.X, d.weights), Moments.of(d.W, d.weights))

    @property
    def in_partitions(self) -> bool:
        return isinstance(self.design, PartitionedDesign)

    def objective(self, penalty: float = 0.0) -> Any:
        """An Objective, or PartitionedObjective, of the rows."""
        kind = PartitionedObjective if self.in_partitions else Objective
        return kind(self.rows, self.parametrized.form, penalty=penalty)

    def constant_rows(self) -> Any:
        """The rows with constants in place of all columns."""
        if self.in_partitions:
            return self.rows.derive(constants)
        one = np.ones((self.design.nobs, 1))
        rows = self.rows_of(replace(self.design, X=one, W=one))
        return replace(rows, ridge=np.eye(2))

    def _in_order(self, params: Any, argument: str = "params") -> Floats:
        """Estimated parameters as an array; a Series with their names is read by them."""
        names = self.param_names
        if isinstance(params, pd.Series) and set(params.index) == set(names):
            params = params[names]
        return as_floats(params, argument)

    def expand(self, params: Any) -> Floats:
        """Estimated parameters -> the engine's, fixed ones put in their places."""
        params = self._in_order(params)
        n_coef = self.k_outcome + self.k_select
        if params.shape != (self.nparams,):
            raise ValueError(
                f"params must be {self.nparams} numbers ({', '.join(self.param_names)}), got shape "
                f"{params.shape}"
            )
        return np.concatenate([params[:n_coef], self.parametrized.values(params[n_coef:])])

    @property
    def estimated(self) -> NDArray[np.bool_]:
        """(P,) which of the engine's parameters are estimated."""
        coef = np.ones(self.k_outcome + self.k_select, dtype=bool)
        return np.concatenate([coef, self.parametrized.free])

    def loglike(self, params: Any) -> float:
        """Log-likelihood at ``params``, weighted."""
        return float(self.objective().evaluate(self.expand(params), 0).value[0])

    def loglikeobs(self, params: Any) -> Floats:
        """Log-likelihood of every row at ``params``, (n,), times its weight."""
        values = self.objective().row_values(self.expand(params))[0].cpu().numpy()
        return values if self.design.weights is None else values * self.design.weights

    def score(self, params: Any) -> Floats:
        """Gradient of the log-likelihood at ``params``, (P,)."""
        score = self.objective().evaluate(self.expand(params), 1).score
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
        hessian = self.objective().evaluate(self.expand(params), 2).hessian
        assert hessian is not None
        return hessian[0].cpu().numpy()[np.ix_(self.estimated, self.estimated)]

    # -- fitting -----------------------------------------------------------------------------------

    def _independent(self, method: Method, penalty: float, started: bool) -> Independent:
        """The two equations fitted apart; ``started`` where they are not needed as start values."""
        return fit_independent(self.rows, probit=self.probit_outcome, penalty=penalty)

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
            maximum is sought, by default seven; see ``results.maxima``); lr, weight_decay, tol,
            batch_size, rng, redraw (sgd).

        Returns
        -------
        SelectionResults
        """
        if self._needs_free_form(method):
            return self.sibling("free").fit(
                start_params, method, maxiter, cov_type, cov_kwds, disp, penalty, callback,
                checkpoint, **options,
            )  # fmt: skip
        sampling = self.design.weight_kind == "prob_weights"
        cov_type = cov_type or self._default_cov_type()
        check_cov_type(cov_type, self._results_class._more_cov_types, sampling=sampling)
        check_options(method, options, penalty, maxiter, callback)
        self.check_rows_at_hand()
        cov_kwds = dict(cov_kwds or {})
        read_groups(cov_type, cov_kwds, self)  # what is wrong with them is said before the fit
        if self.in_partitions and method == "sgd":
            raise NotInMemoryError(
                "method='sgd' draws batches from all rows, which are in partitions; use 'newton'"
            )
        penalised = penalty > 0 or method == "sgd"
        if penalised:  # collinear columns and separation do no harm there
            check_selection_varies(self.design.counted)
            check_outcome_varies(self.design.counted)
            if method != "sgd":
                check_width(self.design.counted)
        else:
            check_design(self.design.counted)
        if start_params is not None:
            start_params = self._in_order(start_params, "start_params")
            if not np.isfinite(start_params).all():
                raise ValueError("start_params has values that are not finite")
            self.expand(start_params)
        if maxiter is not None:
            options["maxiter"] = maxiter
        given = dict(options)
        with self._progress(disp, method, maxiter, checkpoint) as show:
            independent = self._independent(method, penalty, start_params is not None)
            if not penalised and not independent.converged:
                self._check_separation()
            options["callback"] = both(as_users(callback), show)
            fit = self._fit_checked(independent, start_params, method, penalty, options)
            fit = replace(fit, options=given, asked=self.normalization)
            results = self._results_class(fit, cov_type, cov_kwds)
        if not self._quiet:
            warn_about(results)
        return SelectionResultsWrapper(results)

    def _needs_free_form(self, method: str) -> bool:
        """The paper's optimiser, for a model whose normalization nobody named."""
        usual = self._form_by_default and self.normalization == "loading"
        return usual and isinstance(method, str) and method == "sgd"

    def _progress(
        self, disp: bool, method: str, maxiter: int | None, checkpoint: str | Path | None
    ) -> AbstractContextManager[Callback | None]:
        """What surrounds a fit: a progress bar and, for rows in partitions, a checkpoint."""
        if self.in_partitions:
            return Passes(self.plain_rows(), disp, checkpoint)
        if checkpoint is not None:
            raise ValueError(
                "checkpoint is for data in partitions; give from_formula an execution=Execution()"
            )
        return iterations(disp, method, maxiter)

    def _fit_checked(self, *arguments: Any) -> Fit:
        """:meth:`_fit`, repeated by a finer rule where the one asked for is too coarse.

        From where it began, not from the solution: a coarse rule invents maxima.
        """
        fit = self._fit(*arguments)
        if fit.solution.status is Status.NONFINITE:
            return fit
        found = self._accuracy_of(fit)
        if not found.sufficient and not found.simulated and fit.method != "sgd":
            finer = self.sibling(self.normalization, integration=self.integration.finer())
            fit = finer._fit(*arguments)
            found = replace(finer._accuracy_of(fit), replaced=found)
        return replace(fit, accuracy=found)

    def _accuracy_of(self, fit: Fit) -> Accuracy:
        """Of the solution and, where that lies on a face, of the search that led there."""
        fixed = isinstance(self.integration, Quadrature)
        if fit.inner is not None and fixed and self.integration.controlled() != self.integration:
            searched = self._measured(fit.inner, fit.penalty, maximum=False)
            if not searched.sufficient:
                return searched
        maximum = fit.solution.status.converged or fit.solution.status.boundary
        assert isinstance(fit.model, SelectionModel)
        return fit.model._measured(fit.solution, fit.penalty, maximum=maximum)

    def _measured(self, solution: Solution, penalty: float, *, maximum: bool) -> Accuracy:
        form, rule = self.parametrized.form, self.integration
        whole_line = isinstance(form, FreeForm)
        if not whole_line:  # which has a rule of its own
            rule = rule.controlled()
        finer = rule.finer()
        objective = self.objective(penalty).with_form(
            self.parametrize(self.normalization, finer).form
        )
        difference, shift = measure(objective, solution, self.estimated, maximum=maximum)

        def words(rule: Integration) -> str:
            return str(rule) if whole_line else f"Gauss-Legendre (tol {rule.controlled().tol:g})"

        simulated = form.simulation is not None
        return Accuracy(words(rule), words(finer), difference, shift, simulated)

    def _fit(
        self,
        independent: Independent,
        start_params: Floats | None,
        method: Method,
        penalty: float,
        options: dict[str, Any],
    ) -> Fit:
        objective = self.objective(penalty)
        spec = self.parametrized
        options = dict(options)
        n_starts = options.pop("n_starts", None)
        if spec.kind == "free" and spec.free.all() and method == "newton":
            if start_params is None:
                return self._fit_closed(objective, independent, penalty, n_starts, options)
            return self._fit_from(objective, independent, start_params, penalty, options)
        start = None if start_params is None else self.expand(start_params)
        maxima: tuple[Solution, ...] = ()
        climbs: tuple[Climb, ...] = ()
        if method == "sgd":
            maxima = (maximize(self._sgd_objective(options), start, method="sgd", **options),)
        elif start is None:
            fixed = spec.values(np.zeros(spec.free.sum()))
            at = (objective, independent.params, fixed, spec.free, n_starts, self._rarest_label())
            if method == "newton":
                found = search(*at, **options)
                maxima, climbs, start = found.maxima, found.climbs, found.start
            else:
                start = tops(*at)[0]
        if not maxima:
            ended = maximize(objective, start, method=method, free=self.estimated, **options)
            maxima = (at_corner(objective, ended),)
        used = None if start is None else start[self.estimated]
        solution = maxima[0]
        face = self._face_of(solution)
        if face is not None:
            # With the dependence held the coefficients are those that the search ended with.
            held = None if face == "independent" else solution.params[: len(independent.params)]
            on_face = self.sibling(face)._fit(independent, held, method, penalty, options)
            fit = replace(named(on_face, solution.status), inner=solution)
        else:
            faces = {"independent": independent.value}
            fit = Fit(self, solution, independent, method, used, penalty, faces)
        others = tuple((self, other) for other in maxima[1:])
        return replace(fit, climbs=climbs, maxima=((fit.model, fit.solution), *others))

    def maximum(self, independent: Independent) -> Solution:
        """The maximum of the likelihood, without anything around it."""
        return self._fit(independent, None, "newton", 0.0, {}).solution

    def _fit_closed(
        self,
        objective: Objective,
        independent: Independent,
        penalty: float,
        n_starts: int | None,
        options: dict[str, Any],
    ) -> Fit:
        """The free model: its faces, its interior from their maxima, and the highest of all."""
        more = {} if n_starts is None else {"n_starts": n_starts}
        fits = [
            (status, self.sibling(face)._fit(independent, None, "newton", penalty, options | more))
            for status, face in self._faces.items()
            # rho = -1 and a flat top are places on a face that is there; no dependence is a point
            # of the loading form
            if status not in (Status.RHO_MINUS, Status.FLAT) and face != "independent"
        ]
        places = [Place.of(*pair) for _, fit in fits for pair in fit.maxima]
        where, best = max(fits, key=lambda pair: comparable(pair[1].solution))
        inner = search_interior(objective, places, comparable(best.solution), n_starts, **options)
        faces = {"independent": independent.value}
        faces |= {label(fit.model.normalization): fit.solution.value for _, fit in fits}
        interior = inner.maxima[0]
        found = [pair for _, fit in fits for pair in fit.maxima]
        if comparable(interior) > comparable(best.solution) and not interior.status.boundary:
            faces["free"] = interior.value
            fit = Fit(self, interior, independent, "newton", None, penalty, faces)
        else:
            minus = where is Status.RHO_PLUS and best.solution.params[-1] < 0
            status = Status.RHO_MINUS if minus else where
            fit = replace(named(best, status), faces=faces, inner=interior)
        found = [(fit.model, fit.solution), *found, *((self, s) for s in inner.maxima)]
        return replace(fit, climbs=inner.climbs, maxima=humps(found))

    def _fit_from(
        self,
        objective: Objective,
        independent: Independent,
        start_params: Floats,
        penalty: float,
        options: dict[str, Any],
    ) -> Fit:
        """The free model from the user's start values, and the face that this leads to."""
        solution = maximize(objective, self.expand(start_params), **options)
        faces = {"independent": independent.value}
        fit = Fit(self, solution, independent, "newton", start_params, penalty, faces)
        if solution.status.boundary:
            face = self.sibling(self._faces[solution.status])._fit(
                independent, None, "newton", penalty, options
            )
            faces[label(face.model.normalization)] = face.solution.value
            if face.solution.value >= solution.value:
                fit = replace(named(face, solution.status), faces=faces, inner=solution)
        return replace(fit, maxima=((fit.model, fit.solution),))

    def _rarest_label(self) -> float:
        """Share of the rows that have the rarer label; in partitions it is not looked for."""
        if self.in_partitions:
            return 0.5
        y = self.design.y[self.design.labelled]
        ones = float((y > 0.5).sum())
        return min(ones, len(y) - ones) / self.design.nobs

    def check_refit_options(
        self,
        method: str,
        penalty: float,
        maxiter: int | None = None,
        start_params: Any = None,
        first_stage_tol: Any = None,
        **options: Any,
    ) -> None:
        """What ``fit`` would refuse, before many of them run."""
        check_options(method, options, penalty, maxiter)
        if start_params is not None:
            self.expand(start_params)

    def _default_cov_type(self) -> str:
        return "HC0" if self.design.weight_kind == "prob_weights" else "nonrobust"

    def plain_rows(self) -> Any:
        """The rows on which the two equations are fitted apart."""
        return self.rows

    def _sgd_objective(self, options: dict[str, Any]) -> Objective:
        raise ValueError(
            f"method='sgd' is the paper's optimiser for sigma and rho free; {type(self).__name__} "
            "does not have them"
        )

    def _face_of(self, solution: Solution) -> Normalization | None:
        """The normalization of the face on which a search that ended at a bound goes on."""
        status, spec = solution.status, self.parametrized
        if not status.boundary:
            return None
        if spec.kind == "free" and spec.free.all():
            return self._faces[status]
        at = dependence(spec.kind, solution.params[self.k_outcome + self.k_select :])
        if spec.kind != "probit" and status in (Status.RHO_PLUS, Status.RHO_MINUS):
            return {"sigma": at.sigma, "rho": float(np.sign(at.rho))}
        limit = self._faces.get(status)
        if limit == "independent":
            return limit
        return {"sigma": np.inf if limit == "probit" else at.sigma, "rho": at.rho}

    def _check_separation(self) -> None:
        """Raise with the column and the remedies where an equation separates perfectly."""
        if self.in_partitions:  # separated rows are so in any sample of them
            self._check_separation_of(self.plain_rows().spread(SEPARATION_ROWS))
            return
        d = self.design.counted
        seen = d.labelled
        check_separation(d.y[seen], d.X[seen], d.outcome_names, "outcome")
        check_separation(d.s, d.W, d.select_names, "selection")

    @one_thread()
    def _check_separation_of(self, rows: Rows) -> None:
        seen = rows.tilt > 0
        y = (0.5 * (1.0 + rows.sign[seen])).cpu().numpy()
        X, W = rows.X[:, seen].mT.cpu().numpy(), rows.W.mT.cpu().numpy()
        check_separation(y, X, self.design.outcome_names, "outcome")
        check_separation(seen.cpu().numpy().astype(float), W, self.design.select_names, "selection")

    def meat_in_partitions(
        self,
        objective: PartitionedObjective,
        theta: Floats,
        cov_type: str,
        groups: tuple[str, ...],
        use_correction: bool,
    ) -> Meat:
        """Meat of rows in partitions, at the engine's parameters."""
        counts, at = self.design.counts, objective.as_theta(theta)
        sampling = self.design.weight_kind == "prob_weights"
        if cov_type != "cluster":
            matrix = objective.opg(at, sampling=sampling).cpu().numpy()
            return Meat(matrix, float(counts.rows) if sampling else counts.observations)
        self.check_rows_at_hand()
        assert self._frames is not None
        return meat_by_keys(objective, self._frames, at, groups, use_correction=use_correction)

    def _fit_zeros(
        self,
        keep_index: Any = None,
        start_params: Any = None,
        return_auxiliary: bool = False,
        k_params: int | None = None,
        **fit_kwds: Any,
    ) -> SelectionResultsWrapper:
        """Fit with some outcome coefficients held at zero (statsmodels' protected interface)."""
        keep = np.arange(self.k_outcome)[keep_index]
        kept = np.concatenate([keep, np.arange(self.k_outcome, self.nparams)])
        design = replace(
            self.design,
            X=self.design.X[:, keep],
            outcome_names=tuple(self.design.outcome_names[i] for i in keep),
            outcome_spec=None,
        )
        small = self.rebuilt(design)
        if start_params is not None:
            fit_kwds["start_params"] = np.asarray(start_params)[kept]
        part = small.fit(**fit_kwds)
        return SelectionResultsWrapper(part._results.embed(self, kept))

    # -- predictions -------------------------------------------------------------------------------

    def predict(
        self,
        params: Any,
        exog: Any = None,
        exog_select: Any = None,
        *,
        which: str = "mean",
        offset: Any = None,
        offset_select: Any = None,
    ) -> Floats:
        """Probabilities and indices at given designs.

        Parameters
        ----------
        params : array_like
        exog, exog_select : array_like, optional
            (m, p) and (m, k) designs; by default those of the model. Only those that ``which``
            needs are read.
        which : str
            "mean": P(y = 1) in the population; "linear", "linear-select": the indices;
            "prob-select": P(s = 1); "mean-selected", "mean-unselected": P(y = 1 | s);
            "p11", "p10", "p01", "p00": P(y, s).
        offset, offset_select : array_like, optional
            By default the model's own where its own design is used, else zero. Results read new
            data's offsets themselves where the model's were given by column name.
        """
        quantity = self.quantity(params, which)
        return quantity.value(self.designs(which, exog, exog_select, offset, offset_select))

    def quantity(self, params: Any, which: str) -> Quantity:
        """What is predicted, at these parameters."""
        check_which(which)
        full, spec = self.expand(params), self.parametrized
        beta, gamma, dependence = np.split(full, [self.k_outcome, self.k_outcome + self.k_select])
        return Quantity(spec.form, which, beta, gamma, dependence, spec.free)

    def designs(
        self,
        which: str,
        exog: Any = None,
        exog_select: Any = None,
        offset: Any = None,
        offset_select: Any = None,
    ) -> Designs:
        """The rows of :meth:`predict`, checked; only the designs that ``which`` needs."""
        check_which(which)
        if which in NEEDS_OUTCOME & NEEDS_SELECT and (exog is None) != (exog_select is None):
            raise ValueError(f"which={which!r} reads both designs; give exog and exog_select")
        if self.in_partitions and exog is None and exog_select is None:
            self.design.refuse("a prediction")
        if exog is None:
            offset = self.offset if offset is None else offset
        if exog_select is None:
            offset_select = self.offset_select if offset_select is None else offset_select
        X = W = None
        if which in NEEDS_OUTCOME:
            X = self._matrix(self.exog, exog, self.design.outcome_names, "exog")
            offset = _vector(offset, len(X), "offset")
        if which in NEEDS_SELECT:
            W = self._matrix(self.exog_select, exog_select, self.design.select_names, "exog_select")
            offset_select = _vector(offset_select, len(W), "offset_select")
        if X is not None and W is not None and len(X) != len(W):
            raise ValueError(
                f"exog has {len(X)} rows and exog_select {len(W)}; which={which!r} needs both for "
                "the same rows"
            )
        return Designs(
            X, W, offset if X is not None else None, offset_select if W is not None else None
        )

    def _matrix(self, own: Any, given: Any, names: tuple[str, ...], argument: str) -> Floats:
        """The rows given, or the model's own."""
        if given is not None:
            return new_matrix(given, names, argument)
        if own is None:
            raise NotInMemoryError(
                f"{argument} is needed: the data have been removed from this model"
            )
        return np.asarray(own)

    def offsets_for(self, data: Any, which: str, *given: Any) -> tuple[Any, Any]:
        """Offsets of new ``data`` that ``which`` needs: as given, or their own named column."""
        found = []
        needed = (which in NEEDS_OUTCOME, which in NEEDS_SELECT)
        for name, read, value in zip(self.offset_columns, needed, given, strict=True):
            if value is None and name is not None and read:
                frame = as_frame(data)
                if name not in frame:
                    raise ValueError(f"data lacks the offset column {name!r} of this model")
                check_unique(frame, [name])
                value = as_floats(frame[name], name)
            found.append(value)
        return found[0], found[1]

    def design_for(self, data: Any, which: str) -> tuple[Any, Any]:
        """Designs of new ``data`` through the stored formulas: only those that ``which`` needs."""
        check_which(which)
        outcome, select = self.design.outcome_spec, self.design.select_spec
        if outcome is None or select is None:
            raise ValueError("data needs a model built from formulas; pass exog and exog_select")
        return (
            rebuild(outcome, data) if which in NEEDS_OUTCOME else None,
            rebuild(select, data) if which in NEEDS_SELECT else None,
        )

    # -- refits of the same rows under other weights, labels or draws ------------------------------

    def batchable(self) -> bool:
        """Whether every step of a fit can be repeated as a batch."""
        return True

    def refits_at_once(self, params: Floats) -> int:
        """Refits of a batch near ``params`` that fit into the memory budget."""
        return self.objective().members_at_once(self.expand(params))

    @one_thread_a_step
    def refit_weights(
        self, weights: Floats, start_params: Floats, penalty: float = 0.0, **options: Any
    ) -> Iterator[Solution | str]:
        """Newton fits under B sets of row weights.

        Parameters
        ----------
        weights : ndarray
            (B, n) in the order of the model's rows, in place of its own weights.
        start_params : ndarray
            (P,) where all of them start.
        penalty : float
            As in ``fit``.
        **options
            Of :func:`maximize_many`: maxiter, gtol, chunk.

        Yields
        ------
        Solution or str
            In the order of the weights, each with its own status, or why there is none.
        """
        rows = self.rows
        by_row = torch.as_tensor(weights, device=rows.device)[:, rows.order]
        start = self.expand(start_params)[None]
        chunks = maximize_many(
            self.objective(penalty), start, free=self.estimated, weights=by_row, **options
        )
        for chunk in chunks:
            yield from chunk

    def refit_resampled(
        self,
        n_rep: int,
        rng: np.random.Generator,
        start_params: Floats,
        penalty: float = 0.0,
        *,
        weighted: bool = False,
        groups: str | None = None,
        **options: Any,
    ) -> Iterator[Solution | str]:
        """Newton fits to resamples of rows in partitions, drawn where the rows are.

        Parameters
        ----------
        groups : str, optional
            Column of the data whose clusters are drawn, not rows.
        """
        rows, counts = self.plain_rows(), self.design.weight_kind == "freq_weights"
        clusters = None
        if groups is not None:
            assert self._frames is not None
            clusters = find_clusters(rows, self._frames, groups)
        draws = draw_resamples(
            rows, n_rep, rng, weighted=weighted, counts=counts, clusters=clusters
        )
        return self._refit_draws(draws, start_params, penalty, **options)

    @one_thread_a_step
    def _refit_draws(
        self, draws: Resamples, start_params: Floats, penalty: float = 0.0, **options: Any
    ) -> Iterator[Solution | str]:
        """Newton fits to given resamples of rows in partitions."""

        def drawn(which: NDArray[np.int64]) -> PartitionedRows:
            return draws.members(which).rows(self.rows)

        form, members = self.parametrized.form, np.arange(len(draws))
        objective = ResampledObjective(drawn, members, form, penalty=penalty)
        start = self.expand(start_params)[None]
        for chunk in maximize_many(objective, start, free=self.estimated, **options):
            yield from chunk

    @one_thread_a_step
    def refit_draws(
        self, n_sets: int, start_params: Floats, penalty: float = 0.0, **options: Any
    ) -> Iterator[Solution]:
        """Newton fits of ``n_sets`` sets of draws, from ``start_params``; ``penalty`` is fit's."""
        simulation = self.parametrized.form.simulation
        if not isinstance(simulation, Simulation):
            raise ValueError(
                "the model is integrated by quadrature, which has no simulation error; it needs "
                "integration='simulation'"
            )
        rows, objective = self.rows, self.objective(penalty)
        start = self.expand(start_params)[None]
        # Draws belong to keys, so keys that no row of the data has give independent draws.
        span = int(rows.key.max()) + 1
        size = options.pop("chunk", None) or objective.members_at_once(start[0])
        for first in range(0, n_sets, size):
            sets = torch.arange(first + 1, min(first + size, n_sets) + 1, device=rows.device)
            redrawn = objective.with_rows(rekeyed(rows, rows.key + span * sets[:, None]))
            for chunk in maximize_many(redrawn, start, free=self.estimated, **options):
                yield from chunk


def _vector(values: Any, n: int, name: str) -> Floats | None:
    if values is None:
        return None
    vector = as_floats(values, name)
    if vector.shape not in ((), (n,)):
        raise ValueError(f"{name} must be one number or {n}, got shape {vector.shape}")
    return np.broadcast_to(vector, n)
