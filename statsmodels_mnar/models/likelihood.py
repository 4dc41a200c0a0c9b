"""The likelihood of a selection model as statsmodels asks for it, evaluated by the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from statsmodels.base.model import GenericLikelihoodModel

from ..design import Design
from ..design.partitioned import PartitionedDesign, SavedDesign
from ..design.values import as_floats
from ..errors import NotInMemoryError
from ..kernel.rows import Moments, Rows, joint_ridge
from ..large.partitions import PartitionedObjective, PartitionedRows
from ..optimize.objective import Objective
from .large import constants
from .normalization import Parametrized

Floats = NDArray[np.float64]


class SelectionLikelihood(GenericLikelihoodModel):
    """Log-likelihood, score and Hessian in the parameters that are estimated."""

    design: Any  # a Design, or a PartitionedDesign
    k_outcome: int
    k_select: int
    _parametrized: Parametrized
    _device: torch.device
    _rows: Rows | PartitionedRows | None
    _held_ridge: Floats | None = None  # of a refit under other weights

    @property
    def param_names(self) -> list[str]:
        """Outcome names, ``select_`` names, then the dependence parameters that are estimated."""
        return list(self.exog_names)

    def _n_weighted(self) -> float:
        """Number of observations that the rows stand for."""
        return self.design.counts.observations

    @property
    def rows(self) -> Any:
        """The data on the device: Rows, or PartitionedRows."""
        if self._rows is None:
            self._rows = self._rows_of(self.training_design)
        return self._rows

    @property
    def training_design(self) -> Design:
        """What the likelihood is evaluated on."""
        return self.design

    def _check_data_at_hand(self) -> None:
        if isinstance(self.design, SavedDesign):
            self.design.refuse("the rows")
        if self.design.nobs == 0 or (self._in_partitions and self._rows is None):
            raise NotInMemoryError("the data have been removed from this model; build it again")

    def _rows_of(self, d: Any) -> Rows:
        self._check_data_at_hand()
        return Rows.build(
            d.X, d.W, d.y, d.s, weights=d.weights, offset=d.offset,
            offset_select=d.offset_select, key=d.kept, device=self._device,
            ridge=self._ridge_of(d),
        )  # fmt: skip

    def _ridge_of(self, d: Any) -> Floats:
        """What a penalty multiplies, (p + k, p + k); refits keep that of all rows."""
        if self._held_ridge is not None:
            return self._held_ridge
        return joint_ridge(Moments.of(d.X, d.weights), Moments.of(d.W, d.weights))

    @property
    def _in_partitions(self) -> bool:
        return isinstance(self.design, PartitionedDesign)

    def _objective(self, penalty: float = 0.0) -> Any:
        """An Objective, or PartitionedObjective, of the rows."""
        kind = PartitionedObjective if self._in_partitions else Objective
        return kind(self.rows, self._parametrized.form, penalty=penalty)

    def _constant_rows(self) -> Any:
        """The rows with constants in place of all columns."""
        if self._in_partitions:
            return self.rows.derive(constants)
        one = np.ones((self.design.nobs, 1))
        rows = self._rows_of(replace(self.design, X=one, W=one))
        return replace(rows, ridge=np.eye(2))

    def _in_order(self, params: Any, argument: str = "params") -> Floats:
        """Estimated parameters as an array; a Series with their names is read by them."""
        names = self.param_names
        if isinstance(params, pd.Series) and set(params.index) == set(names):
            params = params[names]
        return as_floats(params, argument)

    def _expand(self, params: Any) -> Floats:
        """Estimated parameters -> the engine's, fixed ones put in their places."""
        params = self._in_order(params)
        n_coef = self.k_outcome + self.k_select
        if params.shape != (self.nparams,):
            raise ValueError(
                f"params must be {self.nparams} numbers ({', '.join(self.param_names)}), got shape "
                f"{params.shape}"
            )
        return np.concatenate([params[:n_coef], self._parametrized.values(params[n_coef:])])

    @property
    def _estimated(self) -> NDArray[np.bool_]:
        """(P,) which of the engine's parameters are estimated."""
        coef = np.ones(self.k_outcome + self.k_select, dtype=bool)
        return np.concatenate([coef, self._parametrized.free])

    def loglike(self, params: Any) -> float:
        """Log-likelihood at ``params``, weighted."""
        return float(self._objective().evaluate(self._expand(params), 0).value[0])

    def loglikeobs(self, params: Any) -> Floats:
        """Log-likelihood of every row at ``params``, (n,), times its weight."""
        values = self._objective().row_values(self._expand(params))[0].cpu().numpy()
        return values if self.design.weights is None else values * self.design.weights

    def score(self, params: Any) -> Floats:
        """Gradient of the log-likelihood at ``params``, (P,)."""
        score = self._objective().evaluate(self._expand(params), 1).score
        assert score is not None
        return score[0].cpu().numpy()[self._estimated]

    def score_obs(self, params: Any) -> Floats:
        """Score of every row at ``params``, (n, P), times its weight."""
        scores = self._row_scores(params)
        weights = self.design.weights
        return scores if weights is None else weights[:, None] * scores

    def _row_scores(self, params: Any) -> Floats:
        scores = self._objective().row_scores(self._expand(params)).cpu().numpy()
        return scores[:, self._estimated]

    def hessian(self, params: Any) -> Floats:
        """Second derivatives of the log-likelihood at ``params``, (P, P)."""
        hessian = self._objective().evaluate(self._expand(params), 2).hessian
        assert hessian is not None
        return hessian[0].cpu().numpy()[np.ix_(self._estimated, self._estimated)]
