"""Errors and warnings of the package.

Every error is a ``ValueError``; those that statsmodels also knows are its classes too, so code
that catches the statsmodels class keeps working.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from statsmodels.tools import sm_exceptions as sm

__all__ = [
    "DesignError",
    "IntegrationAccuracyWarning",
    "MissingDataError",
    "MissingOutcomeWarning",
    "NoExclusionRestrictionWarning",
    "NoVariationError",
    "NotInMemoryError",
    "PerfectSeparationError",
    "SingularDesignError",
    "WeakIdentificationWarning",
]

_PACKAGE = f"{Path(__file__).parent}{os.sep}"
_MORE = "See docs/troubleshooting."  # a page that goes by the messages


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the line outside the package that led here, which is the user's.

    The text ends with the page that says what to do.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{text} {_MORE}", category, stacklevel=level)


class DesignError(ValueError):
    """The formulas or the data cannot be turned into a design; the class of all such errors.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(500).data
    >>> GreeneSelectionLogit.from_formula("y ~ x1", "s ~ nowhere", data)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    statsmodels_mnar.errors.DesignError: ...
    """


class _LookedUp:
    """An error whose message ends with the page that says what to do."""

    def __str__(self) -> str:
        return f"{super().__str__()} {_MORE}"


class MissingDataError(DesignError, sm.MissingDataError):
    """Values are missing where ``missing="raise"`` or ``"none"`` does not allow it.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(500).data
    >>> data.loc[0, "x1"] = float("nan")
    >>> GreeneSelectionLogit.from_formula(
    ...     "y ~ x1", "s ~ x1 + z", data, missing="raise")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    statsmodels_mnar.errors.MissingDataError: ...
    """


class SingularDesignError(_LookedUp, DesignError):
    """The columns of a design are linearly dependent on the rows that identify them.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(500).data
    >>> data["twice"] = 2 * data.x1
    >>> model = GreeneSelectionLogit.from_formula("y ~ x1 + twice", "s ~ x1 + z", data)
    >>> model.fit()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    statsmodels_mnar.errors.SingularDesignError: ...
    """


class NoVariationError(_LookedUp, DesignError):
    """The outcome or the selection indicator takes one value only.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(500).data
    >>> seen = data[data.s == 1]
    >>> model = GreeneSelectionLogit.from_formula("y ~ x1", "s ~ x1 + z", seen)
    >>> model.fit()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    statsmodels_mnar.errors.NoVariationError: ...
    """


class AbsentError(ValueError, AttributeError):
    """A property has no value here.

    It is an AttributeError because Python asks for properties too: ``hasattr``, ``getattr`` with a
    default, ``inspect.getmembers`` and the completion of notebooks let no other error pass.
    """


class NotInMemoryError(AbsentError, DesignError):
    """Something needs all rows at once, and they are in partitions, or were removed.

    It is an AttributeError as well: ``hasattr(model.design, "X")`` is False then.

    Examples
    --------
    >>> from statsmodels_mnar import Execution, GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> model = GreeneSelectionLogit.from_formula(
    ...     "y ~ x1", "s ~ x1 + z", simulate_greene(500).data, execution=Execution())
    >>> model.fit(method="sgd")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    statsmodels_mnar.errors.NotInMemoryError: method='sgd' draws batches from all rows...
    """


class PerfectSeparationError(_LookedUp, DesignError, sm.PerfectSeparationError):
    """A linear combination of columns predicts a binary variable perfectly: no finite maximum.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(500).data
    >>> data["cut"] = (data.z > 0).astype(int)
    >>> model = GreeneSelectionLogit.from_formula("y ~ x1", "cut ~ x1 + z",
    ...                                           data.assign(y=data.y_full))
    >>> model.fit()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    statsmodels_mnar.errors.PerfectSeparationError: ...
    """


class MissingOutcomeWarning(sm.ModelWarning):
    """Selected rows have no outcome and were dropped.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(500).data
    >>> import warnings
    >>> data.loc[data.index[data.s == 1][:3], "y"] = float("nan")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = GreeneSelectionLogit.from_formula("y ~ x1", "s ~ x1 + z", data)
    >>> caught[0].category.__name__
    'MissingOutcomeWarning'
    """


class NoExclusionRestrictionWarning(sm.ModelWarning):
    """No variable moves selection without entering the outcome equation.

    Examples
    --------
    >>> from statsmodels_mnar import GreeneSelectionLogit
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> data = simulate_greene(500).data
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     results = GreeneSelectionLogit.from_formula(
    ...         "y ~ x1", "s ~ x1", data).fit()
    >>> caught[0].category.__name__
    'NoExclusionRestrictionWarning'
    """


class IntegrationAccuracyWarning(sm.ModelWarning):
    """The integration asked for is too coarse at the solution.

    The fit was then repeated by a finer rule, unless the likelihood is simulated: draws are
    kept. ``results.accuracy`` has the figures.

    Examples
    --------
    >>> import warnings
    >>> from statsmodels_mnar import GreeneSelectionLogit, Quadrature
    >>> from statsmodels_mnar.datasets import simulate_greene
    >>> sim = simulate_greene(1_000, sigma=2.0, rho=0.9, rng=0)
    >>> model = GreeneSelectionLogit.from_formula(
    ...     sim.formula, sim.select_formula, sim.data, normalization={"sigma": 2.0},
    ...     integration=Quadrature(rule="gauss-hermite", n_nodes=5))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     results = model.fit()
    >>> caught[0].category.__name__, results.accuracy.rule
    ('IntegrationAccuracyWarning', 'trapezoid (tol 1e-10)')
    """


class WeakIdentificationWarning(sm.ModelWarning):
    """The maximum lies on a ridge: the data hardly identify some parameters separately.

    Examples
    --------
    It can be made an error, which stops the fit:

    >>> import warnings
    >>> from statsmodels_mnar import WeakIdentificationWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", WeakIdentificationWarning)
    """


def listing(values: Iterable[Any], most: int = 8, sep: str = ", ") -> str:
    """Values as they appear in a message: the first few, and how many there are."""
    values = list(values)
    more = f"{sep}... ({len(values)} in all)" if len(values) > most else ""
    return sep.join(str(value) for value in values[:most]) + more
