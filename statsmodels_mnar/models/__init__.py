"""The statsmodels classes."""

from .biascorr import BiasCorrLogit
from .greene import GreeneSelectionLogit
from .large import Execution
from .probit import ProbitSelection

__all__ = ["BiasCorrLogit", "Execution", "GreeneSelectionLogit", "ProbitSelection"]
