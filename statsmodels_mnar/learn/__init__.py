"""Classifiers in scikit-learn's conventions for labels that are missing not at random.

Needs scikit-learn (``pip install statsmodels-mnar[sklearn]``); nothing else in the package imports
this part. Names are imported when they are first asked for, so that boosters and networks cost
nothing where they are not used.
"""

from importlib import import_module
from typing import Any

_WHERE = {
    "BiasCorrClassifier": ".classifiers",
    "BoostedSelectionClassifier": ".boosting",
    "FuzzyAugmentationClassifier": ".scorecards",
    "GreeneClassifier": ".classifiers",
    "IPWClassifier": ".classifiers",
    "LabelledKFold": ".evaluation",
    "MaskingStudy": ".masking",
    "MissingLabelClassifier": ".estimator",
    "NeuralSelectionClassifier": ".networks",
    "ParcellingClassifier": ".scorecards",
    "ProbitSelectionClassifier": ".classifiers",
    "ReclassificationClassifier": ".scorecards",
    "ScoreBandClassifier": ".scorecards",
    "SelectionLoss": ".loss",
    "labelled_scorer": ".evaluation",
    "masking_study": ".masking",
    "population_scorer": ".evaluation",
}

__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(_WHERE[name], __name__)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("sklearn", "joblib"):
            raise
        raise ImportError(
            f"{name} needs scikit-learn, which is not installed: pip install "
            "statsmodels-mnar[sklearn]",
            name=error.name,
        ) from error
    found = getattr(module, name)
    globals()[name] = found  # the next access does not come here
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
