"""The door between a fitted model and its results: what they may ask of it, and nothing else.

Results and post-estimation read these names of a model and no others, so that a type checker sees
the seam and a new model knows what it has to have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design import Design
from ..kernel.integration import Integration
from ..kernel.links import Link
from ..kernel.rows import Rows
from ..optimize.binary import Independent
from ..optimize.levels import Effects
from ..optimize.objective import Adjustment, Objective
from ..optimize.penalties import Outer, Penalised
from ..optimize.solution import Solution
from ..types import Floats
from .covariance import Meat
from .dependence import Normalization, Parametrized
from .prediction import Designs, Quantity
from .stacked import Softening

# What results ask for and users have no use for: it is not in the API reference.
INSIDE = frozenset(
    [
        "batchable",
        "blocks_of",
        "check_refit_options",
        "check_rows_at_hand",
        "coefs_held",
        "constant_rows",
        "designs",
        "effects",
        "estimated",
        "expand",
        "frame",
        "holding",
        "in_partitions",
        "levels_for",
        "maximum",
        "meat_in_partitions",
        "n_coef",
        "n_weighted",
        "objective",
        "offset_columns",
        "outer",
        "parametrize",
        "parametrized",
        "plain_rows",
        "quantity",
        "rebuilt",
        "rebuilt_for_refit",
        "refit_resampled",
        "ridge_of",
        "rows_at_hand",
        "rows_of",
        "s_bar",
        "sibling",
        "smoothed",
        "softening",
        "stage",
    ]
)


class FittedModel(Protocol):
    """A selection model, as its results see it."""

    # -- the data ----------------------------------------------------------------------------------
    design: Design  # or a PartitionedDesign in its place, where the rows are in partitions or gone
    frame: pd.DataFrame | None  # the user's table, for columns by name
    endog: Any  # (n,) or None where the rows are in partitions, as all below
    offset: Any
    offset_select: Any
    offset_columns: tuple[str | None, str | None]  # of the two equations, by name

    @property
    def in_partitions(self) -> bool:
        """Whether the rows are in partitions."""

    @property
    def training_design(self) -> Design:
        """The design on which the likelihood is evaluated."""

    @property
    def rows(self) -> Rows:
        """The rows on the device, in memory or in partitions."""

    def plain_rows(self) -> Rows:
        """Return the rows on which the two equations are fitted apart."""

    def constant_rows(self) -> Rows:
        """Return the rows with constants in place of all columns."""

    def rows_of(self, design: Design) -> Rows:
        """Return the rows of another design."""

    def rows_at_hand(self) -> bool:
        """Whether the rows have not been removed."""

    def check_rows_at_hand(self) -> None:
        """Raise an error where the rows have been removed."""

    def n_weighted(self) -> float:
        """Return the number of observations that the rows stand for."""

    # -- the form and its parameters ---------------------------------------------------------------
    integration: Integration
    normalization: Normalization
    parametrized: Parametrized
    link: Link  # of the outcome given its errors
    k_outcome: int
    k_select: int
    k_constant: int
    nparams: int
    df_model: float

    @property
    def n_coef(self) -> int:
        """Number of coefficients of both equations, which the dependence parameters follow."""

    @property
    def param_names(self) -> list[str]:
        """Names of the estimated parameters."""

    @property
    def estimated(self) -> NDArray[np.bool_]:
        """(P,) which parameters of the form are estimated."""

    def expand(self, params: Any) -> Floats:
        """Return all parameters of the form, fixed ones in their places."""

    def parametrize(self, normalization: Normalization, integration: Integration) -> Parametrized:
        """Return the form that a normalization names."""

    def sibling(self, normalization: Normalization, **changes: Any) -> Self:
        """Return the model of the same rows under another normalization."""

    def holding(self, normalization: Normalization) -> Self:
        """Return this model with all of its dependence fixed, for predictions."""

    def rebuilt(self, design: Design, **changes: Any) -> Self:
        """Return a model of the same options on another design."""

    def rebuilt_for_refit(self, design: Design) -> Self:
        """Return a model of a resample: without warnings, and with the ridge of all rows."""

    # -- the likelihood and its fits ---------------------------------------------------------------
    def blocks_of(self) -> tuple[Penalised, ...]:
        """Return the coefficients of each penalised term."""

    effects: Effects | None  # of the factor that is apart

    def outer(self) -> Outer | None:
        """Return the dependence that maximises the marginal likelihood, if it does."""

    def smoothed(self, penalties: Floats | None, adjustment: Adjustment | None = None) -> Self:
        """Return the model with these penalties of its terms."""

    def objective(self, penalty: float = 0.0) -> Objective:
        """Return the objective over the rows, or a PartitionedObjective in its place."""

    def loglike(self, params: Any) -> float:
        """Log-likelihood at ``params``, weighted."""

    def score(self, params: Any) -> Floats:
        """Score at ``params``, (P,)."""

    def hessian(self, params: Any) -> Floats:
        """Second derivatives of the log-likelihood at ``params``, (P, P)."""

    def score_obs(self, params: Any) -> Floats:
        """Score of every row at ``params``, (n, P), times its weight."""

    def meat_in_partitions(
        self, objective: Objective, theta: Floats, cov_type: str, groups: tuple[str, ...],
        use_correction: bool,
    ) -> Meat:  # fmt: skip
        """Return the meat of rows in partitions."""

    def fit(self, *args: Any, **options: Any) -> Any:
        """Estimate the model."""

    def maximum(self, independent: Independent) -> Solution:
        """Return the maximum of the likelihood, without anything around it."""

    def batchable(self) -> bool:
        """Whether every step of a fit can be repeated as a batch."""

    def check_refit_options(self, method: str, penalty: float, **options: Any) -> None:
        """Refuse what ``fit`` would refuse."""

    def refit_weights(
        self, weights: Iterable[Floats], start_params: Floats, penalty: float = 0.0, *,
        n_sets: int | None = None, **options: Any,
    ) -> Iterator[Solution | str]:  # fmt: skip
        """Fit under other row weights."""

    def refit_resampled(
        self, n_rep: int, rng: np.random.Generator, start_params: Floats, penalty: float = 0.0,
        **options: Any,
    ) -> Iterator[Solution | str]:  # fmt: skip
        """Fit to resamples of rows in partitions."""

    def refit_draws(
        self, n_sets: int, start_params: Floats, penalty: float = 0.0, **options: Any
    ) -> Iterator[Solution]:
        """Fit with other sets of draws."""

    # -- predictions -------------------------------------------------------------------------------
    def predict(
        self, params: Any, exog: Any = None, exog_select: Any = None, **given: Any
    ) -> Floats:
        """Probabilities and indices at given designs."""

    def quantity(self, params: Any, which: str) -> Quantity:
        """Return what is predicted, at these parameters."""

    def designs(
        self, which: str, exog: Any = None, exog_select: Any = None, offset: Any = None,
        offset_select: Any = None, level: NDArray[np.int64] | None = None,
    ) -> Designs:  # fmt: skip
        """Return the rows to predict for, checked."""

    def design_for(self, data: Any, which: str) -> tuple[Any, Any]:
        """Return the designs of new data through the stored formulas."""

    def levels_for(self, data: Any) -> NDArray[np.int64] | None:
        """Return the levels of new data of the factor that is apart."""

    def offsets_for(self, data: Any, which: str, *given: Any) -> tuple[Any, Any]:
        """Return the offsets of new data."""

    def remove_data(self) -> None:
        """Drop the rows."""


class SoftModel(FittedModel, Protocol):
    """BiasCorr, as its results see it."""

    stage: Any  # the FirstStage, None until it is trained
    soft_selection: float | str | None
    soft_pseudolabels: bool

    @property
    def first_stage(self) -> Any:
        """The two classifiers, trained where they have not been."""

    def s_bar(self) -> float:
        """Return the mean soft selection of the unlabelled rows."""

    def coefs_held(self) -> tuple[str, ...]:
        """Return why the penalty alone keeps some coefficients finite."""

    def softening(self) -> Softening:
        """Return how unlabelled rows get their soft selection and pseudolabels."""
