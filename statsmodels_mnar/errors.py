"""Errors and warnings of the package.

Every error is a ``ValueError``; those that statsmodels also knows are its classes too, so code
that catches the statsmodels class keeps working.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from statsmodels.tools import sm_exceptions as sm

__all__ = [
    "DesignError",
    "MissingDataError",
    "MissingOutcomeWarning",
    "NoExclusionRestrictionWarning",
    "NoVariationError",
    "PerfectSeparationError",
    "SingularDesignError",
    "WeakIdentificationWarning",
]


class DesignError(ValueError):
    """The formulas or the data cannot be turned into a design."""


class MissingDataError(DesignError, sm.MissingDataError):
    """Values are missing where ``missing="raise"`` or ``"none"`` does not allow it."""


class SingularDesignError(DesignError):
    """The columns of a design are linearly dependent on the rows that identify them."""


class NoVariationError(DesignError):
    """The outcome or the selection indicator takes one value only."""


class PerfectSeparationError(DesignError, sm.PerfectSeparationError):
    """A linear combination of columns predicts a binary variable perfectly: no finite maximum."""


class MissingOutcomeWarning(sm.ModelWarning):
    """Selected rows have no outcome and were dropped."""


class NoExclusionRestrictionWarning(sm.ModelWarning):
    """No variable moves selection without entering the outcome equation."""


class WeakIdentificationWarning(sm.ModelWarning):
    """The maximum lies on a ridge: the data hardly tell some parameters apart."""


def listing(values: Iterable[Any], most: int = 8) -> str:
    """Values as they appear in a message: the first few, and how many there are."""
    values = list(values)
    more = f", ... ({len(values)} in all)" if len(values) > most else ""
    return ", ".join(str(value) for value in values[:most]) + more
