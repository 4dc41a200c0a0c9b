"""Other ways to fit a binary outcome with missing labels, built and called like the models."""

from .base import Baseline, BaselineResults
from .logit import IPWLogit, NaiveLogit, OracleLogit
from .rba import RobustBiasAware
from .reject import FuzzyAugmentation, Parcelling, Reclassification, ScoreBandAugmentation
from .rflearn import RFLearn

__all__ = [
    "Baseline",
    "BaselineResults",
    "FuzzyAugmentation",
    "IPWLogit",
    "NaiveLogit",
    "OracleLogit",
    "Parcelling",
    "RFLearn",
    "Reclassification",
    "RobustBiasAware",
    "ScoreBandAugmentation",
]
