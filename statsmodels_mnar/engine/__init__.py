"""The likelihood of rows, its exact derivatives, and optimisers that say how they ended."""

from .device import resolve_device
from .forms import FreeForm, LoadingForm, ProbitForm, outcome_scale
from .integration import Integration, Quadrature, Simulation, as_integration
from .likelihood import Evaluation
from .objective import Objective
from .optimize import maximize, maximize_batch
from .rows import Rows
from .solution import Solution, Status, Step

__all__ = [
    "Evaluation",
    "FreeForm",
    "Integration",
    "LoadingForm",
    "Objective",
    "ProbitForm",
    "Quadrature",
    "Rows",
    "Simulation",
    "Solution",
    "Status",
    "Step",
    "as_integration",
    "maximize",
    "maximize_batch",
    "outcome_scale",
    "resolve_device",
]
