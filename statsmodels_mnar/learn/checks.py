"""What boosted trees and networks check alike."""

from __future__ import annotations

from typing import Any

from statsmodels.tools.sm_exceptions import ModelWarning

from ..errors import NoExclusionRestrictionWarning, warn
from .base import Training
from .loss import MAX_LOADING


def check_loading(loading: float | None) -> None:
    """Refuse a loading that cannot be held."""
    if loading is not None and not abs(loading) <= MAX_LOADING:
        raise ValueError(
            f"loading={loading!r} must lie between -{MAX_LOADING:g} and {MAX_LOADING:g}, or be "
            "None to be estimated"
        )


def corrects(estimator: Any, data: Training, otherwise: str) -> bool:
    """Whether there is selection to correct; warn where there is none, or no instrument.

    Parameters
    ----------
    estimator : estimator
    data : Training
    otherwise : str
        What happens without unlabelled rows, for the warning.
    """
    hidden = ~data.labels.seen if data.weights is None else ~data.labels.seen & (data.weights > 0)
    if not hidden.any():
        warn(
            f"{type(estimator).__name__}: every row has a label, so that there is no selection to "
            f"correct; {otherwise}. Pass unlabelled rows with NaN or "
            f"missing_label={estimator.missing_label!r} as their label.",
            ModelWarning,
        )
        return False
    if estimator.loading is None and not set(data.select) - set(data.outcome):
        warn(
            "no exclusion restriction: every feature of the selection equation is in the outcome "
            "equation too, so that the shape of the errors alone identifies the loading. Leave a "
            "variable that moves selection only out of outcome_features.",
            NoExclusionRestrictionWarning,
        )
    return True
