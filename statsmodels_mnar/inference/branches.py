"""The forms that meet on a path, each with the parameters it holds there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from ..kernel.forms import CorrelationForm, Form, FreeForm, LoadingForm, ProbitForm, outcome_scale
from ..optimize.objective import Objective
from .dependence import Dependence, dependence

Floats = NDArray[np.float64]
Held = dict[int, Callable[[float], float]]

EVERYWHERE = (-math.inf, math.inf)
LNSIGMA = (math.log(0.05), math.log(6.0))
ATHRHO = math.atanh(0.99)


@dataclass(frozen=True)
class Inner(FreeForm):
    """The free form within bounds at which its nodes are few; faces close the rest."""

    lower: ClassVar[tuple[float, ...]] = (LNSIGMA[0], -ATHRHO)
    upper: ClassVar[tuple[float, ...]] = (LNSIGMA[1], ATHRHO)


@dataclass(frozen=True)
class InnerCorrelation(CorrelationForm):
    """The same in the coordinates (mix, atcorr)."""

    lower: ClassVar[tuple[float, ...]] = (-3.0, CorrelationForm.lower[1])
    upper: ClassVar[tuple[float, ...]] = (2.0, CorrelationForm.upper[1])


@dataclass(frozen=True)
class Positive(LoadingForm):
    """The face rho = 1."""

    lower: ClassVar[tuple[float, ...]] = (0.0,)


@dataclass(frozen=True)
class Negative(LoadingForm):
    """The face rho = -1."""

    upper: ClassVar[tuple[float, ...]] = (0.0,)


@dataclass(frozen=True)
class Moderate(LoadingForm):
    """The loading form within bounds at which its nodes are few."""

    lower: ClassVar[tuple[float, ...]] = (-10.0,)
    upper: ClassVar[tuple[float, ...]] = (10.0,)


@dataclass(frozen=True)
class Branch:
    """One form of the model along a path."""

    objective: Objective
    start: Floats  # (P,) near the estimate
    held: Held  # position of a parameter -> its value at u
    domain: tuple[float, float] = EVERYWHERE  # of u, closed

    @property
    def name(self) -> str:
        form = self.objective.form
        if isinstance(form, LoadingForm):
            return "loading"
        return "probit" if isinstance(form, ProbitForm) else "free"

    @property
    def free(self) -> NDArray[np.bool_]:
        """(P,) parameters that are refitted."""
        mask = np.ones(len(self.start), dtype=bool)
        mask[list(self.held)] = False
        return mask

    def exists(self, u: Floats) -> NDArray[np.bool_]:
        return (u >= self.domain[0]) & (u <= self.domain[1])

    def at_bound(self, params: Floats) -> bool:
        """Whether a refitted dependence parameter lies on the form's bound."""
        form, n_coef = self.objective.form, self.objective.n_coef
        values = params[n_coef:]
        on = (values <= np.array(form.lower)) | (values >= np.array(form.upper))
        return bool((on & self.free[n_coef:]).any())

    def put(self, params: Floats, u: float) -> Floats:
        """``params`` with the held ones at their values."""
        params = params.copy()
        for position, value in self.held.items():
            params[position] = value(u)
        return params

    def natural(self, params: Floats) -> tuple[Floats, Dependence]:
        """Coefficients in the form's own units, and sigma, rho and the error correlation."""
        n_coef = self.objective.n_coef
        coef, values = params[:n_coef].copy(), params[n_coef:]
        form = self.objective.form
        if isinstance(form, LoadingForm):
            return coef, dependence("loading", values)
        if isinstance(form, ProbitForm):
            return coef, dependence("probit", values)
        if isinstance(form, CorrelationForm):
            values = form.free_values(torch.as_tensor(values)[None])[0].numpy()
            coef[: self.objective.p] *= outcome_scale(math.exp(values[0]))
        return coef, dependence("free", values)


def wider(branch: Branch) -> Branch | None:
    """The branch with the interior's full bounds, where it had narrow ones."""
    form = branch.objective.form
    if isinstance(form, Inner):
        whole: Form = FreeForm(form.integration)
    elif isinstance(form, InnerCorrelation):
        whole = CorrelationForm(form.integration)
    else:
        return None
    return replace(branch, objective=branch.objective.with_form(whole))
