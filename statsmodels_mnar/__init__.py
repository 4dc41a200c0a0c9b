"""Binary outcomes whose labels are missing not at random, in the style of statsmodels."""

from .comparison import compare, exclusion_test, hausman_test, vuong_test
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
from .models.saved import from_json
from .montecarlo import monte_carlo
from .optimize.solution import Status
from .post.imputation import pool

__version__ = "0.1.0"

__all__ = [
    "MLP",
    "BiasCorrLogit",
    "DesignError",
    "Execution",
    "GreeneSelectionLogit",
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
