"""The paper's experiments: labels, designs, who is labelled, and the split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..types import Floats
from .loaders import PathLike, load_adult, load_drug, load_german

TRAIN_SHARE = 0.7

# Appendix A of the paper.
_ADULT_NUMBERS = [
    "age", "income", "education_num", "capital_gain", "capital_loss", "hours_per_week",
]  # fmt: skip
_OCCUPATIONS = [
    "Adm-clerical", "Armed-Forces", "Sales", "Craft-repair", "Other-service", "Prof-specialty",
    "Tech-support", "Exec-managerial", "Farming-fishing", "Protective-serv", "Machine-op-inspct",
    "Priv-house-serv", "Handlers-cleaners",
]  # fmt: skip
_RELATIONSHIPS = [
    "Other-relative", "Husband", "Wife", "Not-in-family", "Own-child", "Unmarried",
]  # fmt: skip
_GERMAN_OUTCOME = [
    "duration", "savings", "employment", "personal_status_sex", "residence", "age", "other_plans",
    "existing_credits", "liable", "telephone", "foreign_worker",
]  # fmt: skip
_GERMAN_SELECT = ["status_checking", "credit_history", "credit_amount", "property"]
_DRUG_OUTCOME = ["gender", "education", "country", "ethnicity", "escore"]
_DRUG_SELECT = ["age", "nscore", "oscore", "ascore", "cscore", "impulsive", "ss"]
_OSCORE_CUT = -0.35  # between the quantified values of the raw scores 43 and 44


@dataclass(frozen=True, slots=True)
class Experiment:
    """The training rows of one experiment, and the rows it is tested on.

    Columns are standardized with mean and standard deviation of all rows, dummies too, and the
    selection design has the columns of the outcome design first.

    Attributes
    ----------
    name : str
    y, s : ndarray
        (n,) all labels, which the oracle alone may read, and 1 where the label is seen.
    X, W : DataFrame
        Outcome design with a constant, (n, p), and selection design, (n, k).
    y_test, X_test, W_test
        The same of the N - n test rows.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from statsmodels_mnar.datasets import Experiment
    >>> X = pd.DataFrame({"const": 1.0, "x": [-1.0, 0.5, 2.0]})
    >>> rows = np.array([0.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0]), X, X
    >>> tiny = Experiment("tiny", *rows, np.array([0.0, 1.0]), X.iloc[:2], X.iloc[:2])
    >>> round(tiny.eta, 2), tiny.accuracy(np.array([0.0, 1.0]))
    (0.33, 100.0)
    """

    name: str
    y: Floats  # (n,) all labels, which NoBias alone may read
    s: Floats  # (n,) 1 where the label is seen
    X: pd.DataFrame  # (n, p) outcome design with a constant
    W: pd.DataFrame  # (n, k) selection design
    y_test: Floats  # (N - n,)
    X_test: pd.DataFrame  # (N - n, p)
    W_test: pd.DataFrame  # (N - n, k)

    @property
    def seen(self) -> Floats:
        """(n,) the labels as the models see them."""
        return np.where(self.s == 1, self.y, np.nan)

    @property
    def eta(self) -> float:
        """Share of the training rows without a label."""
        return float(np.mean(self.s == 0))

    def accuracy(self, beta: Floats) -> float:
        """Per cent of the test rows whose label is 1[L(x'beta) > 0.5], ``beta`` being (p,)."""
        return 100.0 * float(np.mean(self.predict_test(beta) == (self.y_test == 1)))

    def predict_test(self, beta: Floats) -> NDArray[np.bool_]:
        """(N - n,) labels of the test rows predicted with the coefficients ``beta``, (p,)."""
        return self.X_test.to_numpy() @ np.asarray(beta) > 0


def load_experiment(
    name: str, path: PathLike = None, *, eta: float | None = None, download: bool = False
) -> Experiment:
    """One of the paper's experiments, to the digit.

    The first int(0.7 N) rows in file order train and the others test.

    ======== =========================================== =====================================
    name     label                                       labelled training rows
    ======== =========================================== =====================================
    adult    works for the government                    more than 12 years of education
    german   good credit                                 a year or more in the job
    drug     benzodiazepines used in the last decade     raw openness score at most 43
    ======== =========================================== =====================================

    Parameters
    ----------
    name : {"adult", "german", "drug"}
    path, download
        As in :func:`load_adult`.
    eta : float, optional
        Share of unlabelled training rows, for the paper's table of missingness ratios on "drug".
        The paper does not say how it changes eta; here the openness cut moves: the
        int((1 - eta) n) training rows with the lowest scores (among ties, those earlier in the
        file) keep their labels.

    Examples
    --------
    >>> load_experiment("german").eta  # doctest: +SKIP
    0.23142857142857143
    """
    if name not in _BUILDERS:
        raise ValueError(f"name={name!r} is unknown; use one of {list(_BUILDERS)}")
    if eta is not None and (name != "drug" or not 0.0 < eta < 1.0):
        raise ValueError(f"eta={eta!r} must lie in (0, 1) and needs name='drug', got {name!r}")
    y, s, columns, n_outcome = _BUILDERS[name](path, download)
    data = (columns - columns.mean()) / columns.std(ddof=0)
    data.insert(0, "const", 1.0)
    n = int(TRAIN_SHARE * len(data))
    if eta is not None:
        order = np.argsort(columns["oscore"].to_numpy()[:n], kind="stable")
        s = np.zeros(n)
        s[order[: int((1.0 - eta) * n)]] = 1.0
    X = data.iloc[:, : n_outcome + 1]
    return Experiment(name, y[:n], s[:n], X[:n], data[:n], y[n:], X[n:], data[n:])


Parts = tuple[Floats, Floats, pd.DataFrame, int]
"""Labels, selection, the columns (those of the outcome first), and how many those are."""


def _adult(path: PathLike, download: bool) -> Parts:
    raw = load_adult(path, download=download).dropna().reset_index(drop=True)
    outcome = {name: raw[name] for name in _ADULT_NUMBERS}
    outcome["marital_status"] = raw["marital_status"].str.startswith("Married")
    for name in _OCCUPATIONS:
        outcome[f"occupation_{name}"] = raw["occupation"] == name
    select = {"occupation_Transport-moving": raw["occupation"] == "Transport-moving"}
    for name in _RELATIONSHIPS:
        select[f"relationship_{name}"] = raw["relationship"] == name
    select["country_Canada"] = raw["native_country"] == "Canada"
    columns = pd.DataFrame(outcome | select).astype(float)
    return _floats(raw["government"]), _floats(raw["education_num"] > 12), columns, len(outcome)


def _german(path: PathLike, download: bool) -> Parts:
    raw = load_german(path, download=download)
    columns = raw[_GERMAN_OUTCOME + _GERMAN_SELECT].apply(_numbers)
    s = raw["employment"].isin(["A73", "A74", "A75"])
    return _floats(raw["good"]), _floats(s), columns, len(_GERMAN_OUTCOME)


def _drug(path: PathLike, download: bool) -> Parts:
    raw = load_drug(path, download=download)
    columns = raw[_DRUG_OUTCOME + _DRUG_SELECT].astype(float)
    s = raw["oscore"] < _OSCORE_CUT
    return _floats(raw["benzos_used"]), _floats(s), columns, len(_DRUG_OUTCOME)


_BUILDERS: dict[str, Callable[[PathLike, bool], Parts]] = {
    "adult": _adult,
    "german": _german,
    "drug": _drug,
}
EXPERIMENTS: tuple[str, ...] = tuple(_BUILDERS)


def _floats(column: pd.Series) -> Floats:
    return column.to_numpy(dtype=float)


def _numbers(column: pd.Series) -> pd.Series:
    """A column as it is, or its codes in sorted order."""
    if pd.api.types.is_numeric_dtype(column):
        return column.astype(float)
    return pd.Series(pd.factorize(column, sort=True)[0].astype(float), index=column.index)
