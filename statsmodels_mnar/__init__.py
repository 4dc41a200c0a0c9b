"""Binary outcomes whose labels are missing not at random, in the style of statsmodels."""

from .engine.integration import Quadrature, Simulation
from .engine.mlp import MLP
from .engine.solution import Status
from .errors import (
    DesignError,
    MissingDataError,
    MissingOutcomeWarning,
    NoExclusionRestrictionWarning,
    NoVariationError,
    PerfectSeparationError,
    SingularDesignError,
    WeakIdentificationWarning,
)
from .models import BiasCorrLogit, GreeneSelectionLogit, ProbitSelection

__version__ = "0.1.0"

__all__ = [
    "MLP",
    "BiasCorrLogit",
    "DesignError",
    "GreeneSelectionLogit",
    "MissingDataError",
    "MissingOutcomeWarning",
    "NoExclusionRestrictionWarning",
    "NoVariationError",
    "PerfectSeparationError",
    "ProbitSelection",
    "Quadrature",
    "Simulation",
    "SingularDesignError",
    "Status",
    "WeakIdentificationWarning",
]
