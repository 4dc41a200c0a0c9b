"""Binary outcomes whose labels are missing not at random, in the style of statsmodels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .design.terms import GroupEffects, Smooth
from .errors import (
    DesignError,
    IntegrationAccuracyWarning,
    MissingDataError,
    MissingOutcomeWarning,
    NoExclusionRestrictionWarning,
    NotInMemoryError,
    NoVariationError,
    PerfectSeparationError,
    SingularDesignError,
    WeakIdentificationWarning,
)
from .kernel.integration import Quadrature, Simulation
from .large.execution import local_workers
from .models import BiasCorrLogit, Execution, GreeneSelectionLogit, ProbitSelection
from .models.first_stage import MLP
from .optimize.solution import Status

if TYPE_CHECKING:
    from . import baselines as baselines
    from . import bias_theory as bias_theory
    from . import comparison as comparison
    from . import datasets as datasets
    from . import learn as learn
    from . import montecarlo as montecarlo
    from .comparison import compare, exclusion_test, hausman_test, vuong_test
    from .models.saved import from_json
    from .montecarlo import monte_carlo
    from .results.imputation import pool

__version__ = "0.2.0"

__all__ = [
    "MLP",
    "BiasCorrLogit",
    "DesignError",
    "Execution",
    "GreeneSelectionLogit",
    "GroupEffects",
    "IntegrationAccuracyWarning",
    "MissingDataError",
    "MissingOutcomeWarning",
    "NoExclusionRestrictionWarning",
    "NoVariationError",
    "NotInMemoryError",
    "PerfectSeparationError",
    "ProbitSelection",
    "Quadrature",
    "Simulation",
    "SingularDesignError",
    "Smooth",
    "Status",
    "WeakIdentificationWarning",
    "compare",
    "exclusion_test",
    "from_json",
    "hausman_test",
    "local_workers",
    "monte_carlo",
    "pool",
    "vuong_test",
]

# Fitting a model needs none of these, so they are imported when they are first asked for.
_ON_DEMAND = {
    "compare": ".comparison",
    "exclusion_test": ".comparison",
    "from_json": ".models.saved",
    "hausman_test": ".comparison",
    "monte_carlo": ".montecarlo",
    "pool": ".results.imputation",
    "vuong_test": ".comparison",
}
_PARTS = ("baselines", "bias_theory", "comparison", "datasets", "learn", "montecarlo")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f".{name}", __name__)
    if name not in _ON_DEMAND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_ON_DEMAND[name], __name__), name)
    globals()[name] = found  # the next access does not come here
    return found


def __dir__() -> list[str]:
    """List what users import, without the modules that it is made of."""
    return sorted({*__all__, *_PARTS, *(name for name in globals() if name.startswith("__"))})
