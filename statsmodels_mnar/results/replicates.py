"""What refits of a model have in common: their estimates, and those that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_params

from ..inference.checks import check_alpha
from ..optimize.solution import Solution, Status
from .latex import SectionedSummary

if TYPE_CHECKING:
    from .selection import SelectionResults


@dataclass(frozen=True, slots=True)
class Replicates:
    """Estimates of refits, with the ones that could not be had."""

    replicates: pd.DataFrame  # (R, P)
    estimate: pd.Series  # (P,)
    failed: Counter[str]
    boundary: Counter[str]
    model: str  # class name, for titles
    held: str | None = field(default=None, kw_only=True)  # boundary of the fit, kept by its refits

    @property
    def n_rep(self) -> int:
        """Refits asked for, failed ones included."""
        return len(self.replicates) + self.failed.total()

    @property
    def n_boundary(self) -> int:
        """Refits whose maximum lies on a boundary, or that stay on that of the fit."""
        return self.boundary.total()

    @property
    def cov(self) -> pd.DataFrame:
        raise NotImplementedError

    @property
    def bias(self) -> pd.Series:
        raise NotImplementedError

    @property
    def bse(self) -> pd.Series:
        """Standard errors."""
        return pd.Series(np.sqrt(np.diag(self.cov)), index=self.estimate.index)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Normal intervals of the estimate less the bias, at level 1 - ``alpha``."""
        return self._normal(alpha)

    def _normal(self, alpha: float) -> pd.DataFrame:
        check_alpha(alpha)
        center, z = self.estimate - self.bias, norm.ppf(1.0 - alpha / 2)
        return pd.DataFrame({0: center - z * self.bse, 1: center + z * self.bse})

    def _title(self) -> str:
        raise NotImplementedError

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Estimates, standard errors, bias and intervals at level 1 - ``alpha``."""
        interval = self.conf_int(alpha)
        return pd.DataFrame(
            {
                "estimate": self.estimate,
                "std err": self.bse,
                "bias": self.bias,
                f"[{alpha / 2:.3g}": interval[0],
                f"{1 - alpha / 2:.4g}]": interval[1],
            }
        )

    def summary(self, alpha: float = 0.05) -> Summary:
        """The same as a table to print, with what failed below it; ``alpha`` of the intervals."""
        frame = self.summary_frame(alpha)
        cells = [[f"{v:.4f}" for v in row] for row in frame.to_numpy()]
        smry = SectionedSummary()
        smry.tables.append(
            SimpleTable(
                cells,
                headers=list(frame.columns),
                stubs=list(frame.index),
                title=self._title(),
                txt_fmt=fmt_params,
            )
        )
        smry.add_extra_txt(self._notes())
        return smry

    def _notes(self) -> list[str]:
        lines = [f"Refits: {self.n_rep}, failed: {self.failed.total()}."]
        lines += [f"  failed, {name}: {count}" for name, count in self.failed.items()]
        if self.boundary:
            lines.append(f"On a boundary, kept with the parameter at its bound: {self.n_boundary}")
            lines += [f"  {name}: {count}" for name, count in self.boundary.items()]
        if self.held is not None:
            lines += [
                "The fit itself lies on a boundary and its refits stay there: their spread leaves",
                "out what is not known about the dependence; see profile() and sensitivity().",
            ]
        return lines


def collect(
    results: SelectionResults, solutions: Iterable[Solution | str], n_rep: int
) -> dict[str, Any]:
    """Sort refits into estimates and failures: the first fields of :class:`Replicates`."""
    model = results.model
    keep = model._estimated
    estimates: dict[int, Any] = {}
    failed, boundary = Counter[str](), Counter[str]()
    for number, solution in enumerate(solutions):
        if isinstance(solution, str):
            failed[solution] += 1
            continue
        status = solution.status
        if not (status.converged or status.boundary or status is Status.STOPPED):
            failed[status.value] += 1
            continue
        where = status if status.boundary else results.status
        if where.boundary:
            boundary[where.value] += 1
        estimates[number] = solution.params[keep]
    if len(estimates) < 2:
        raise ValueError(f"{n_rep - len(estimates)} of {n_rep} refits failed: {dict(failed)}")
    names = model.param_names
    return {
        "replicates": pd.DataFrame.from_dict(estimates, orient="index", columns=names),
        "estimate": pd.Series(np.asarray(results.params), index=names),
        "failed": failed,
        "boundary": boundary,
        "model": type(model).__name__,
        "held": results.status.value if results.status.boundary else None,
    }
