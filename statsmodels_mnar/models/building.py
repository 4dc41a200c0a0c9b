"""From data to a model of them: arrays, formulas, other normalizations, pickles."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch

from ..design import Design, design_from_arrays, design_from_formula
from ..design.chunks import recipe_from_formula
from ..design.frames import as_frame, owned
from ..design.partitioned import PartitionedDesign
from ..design.sources import find_source
from ..errors import DesignError
from ..kernel.integration import Integration, as_integration
from ..kernel.rows import Rows, resolve_device
from ..large.partitions import PartitionedRows
from .fitting import check_names
from .large import Execution, Frames, build
from .normalization import Normalization, Parametrized
from .predictor import SelectionPredictor


class SelectionData(SelectionPredictor):
    """What a model keeps of the data and of its options."""

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
            model._frame = data
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
        model._offset_columns = (
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
        self._parametrized = self._parametrize(normalization, self.integration)
        self.design = design
        self._rows: Rows | PartitionedRows | None = None
        self._frames: Frames | None = None  # of data in partitions
        self._pandas = pandas
        self._frame: pd.DataFrame | None = None  # the data as they were, for columns by name
        self._offset_columns: tuple[str | None, str | None] = (None, None)  # by name, for predict
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
        self._set_extra_params_names([*extra, *self._parametrized.names])
        self.k_outcome, self.k_select = len(design.outcome_names), len(design.select_names)
        self.df_model = float(self.k_outcome - self.k_constant)
        self.df_resid = float(self._n_weighted() - self.nparams)
        if self._in_partitions:
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

    def _parametrize(self, normalization: Normalization, integration: Integration) -> Parametrized:
        raise NotImplementedError

    def _sibling(self, normalization: Normalization, **changes: Any) -> Self:
        """The same data under another normalization; the rows on the device are shared."""
        other = self._rebuilt(self.design, normalization=normalization, **changes)
        other._rows, other._frames, other._quiet = self._rows, self._frames, self._quiet
        other._held_ridge = self._held_ridge
        other._frame, other._offset_columns = self._frame, self._offset_columns
        for name in ("formula", "select_formula"):
            if hasattr(self, name):
                setattr(other, name, getattr(self, name))
        return other

    def _holding(self, normalization: Normalization) -> Self:
        """This model with all of its dependence fixed, for predictions; it works without data."""
        other, data = type(self).__new__(type(self)), copy.copy(self.data)
        other.__dict__.update(self.__dict__)  # copy.copy would leave out what a pickle leaves out
        other.normalization, other.data = normalization, data
        other._parametrized = self._parametrize(normalization, self.integration)
        data._cache = dict(data._cache)  # where statsmodels keeps the names
        data.xnames = list(self.param_names[: self.k_outcome + self.k_select])
        other.nparams = len(data.xnames)
        return other

    def _quietly(self) -> Self:
        """This model without warnings; filters would be those of other threads too."""
        self._quiet = True
        return self

    def _rebuilt(self, design: Design, **changes: Any) -> Self:
        """A model of the same options on another design."""
        other = type(self).__new__(type(self))
        options = {name: getattr(self, name) for name in self._set_up_keywords}
        other._set_up(design, pandas=self._pandas, **(options | changes))
        other._form_by_default = self._form_by_default and "normalization" not in changes
        return other

    def remove_data(self) -> None:
        """Drop the rows, here and in the design; the formulas stay."""
        self._frames = None
        if self._in_partitions:
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
        self._rows = self._frame = None
        getattr(self.data, "_cache", {}).pop("row_labels", None)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_rows": None, "_frame": None, "_frames": None}
