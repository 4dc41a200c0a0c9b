"""The statsmodels classes."""

from .biascorr import BiasCorrLogit
from .greene import GreeneSelectionLogit
from .probit import ProbitSelection

__all__ = ["BiasCorrLogit", "GreeneSelectionLogit", "ProbitSelection"]
