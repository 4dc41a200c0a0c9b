"""The statsmodels classes."""

from ..large.build import Execution
from .biascorr import BiasCorrLogit
from .greene import GreeneSelectionLogit
from .probit import ProbitSelection

__all__ = ["BiasCorrLogit", "Execution", "GreeneSelectionLogit", "ProbitSelection"]
