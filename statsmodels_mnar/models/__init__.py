"""The statsmodels classes."""

from .greene import GreeneSelectionLogit
from .probit import ProbitSelection

__all__ = ["GreeneSelectionLogit", "ProbitSelection"]
