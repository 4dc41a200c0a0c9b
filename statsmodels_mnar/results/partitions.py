"""Predictions and effects of rows in partitions: sums that are made where the rows are."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..design import FormulaSpec, rebuild
from ..design.values import as_floats
from ..kernel.rows import Rows
from ..large.partitions import PartitionedRows
from ..post.margins import Column, average_effects, held
from ..post.prediction import (
    INDICES,
    NEEDS_OUTCOME,
    NEEDS_SELECT,
    Designs,
    Prediction,
    Quantity,
    summed_prediction,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FramePredictor:
    """Predicts for frames of new data; small, and a worker can unpickle it."""

    quantities: tuple[Quantity, ...]
    specs: tuple[FormulaSpec, FormulaSpec]
    offsets: tuple[str | None, str | None]  # columns

    def __dask_tokenize__(self) -> str:
        return hashlib.sha256(pickle.dumps(self)).hexdigest()

    @property
    def columns(self) -> list[str]:
        """Columns of the data that it reads."""
        names: list[str] = []
        for spec, offset, need in self._equations():
            if any(q.which in need for q in self.quantities):
                names += [*spec.columns, *([] if offset is None else [offset])]
        return list(dict.fromkeys(names))

    def check(self) -> None:
        """Refuse what no partition could evaluate, before any is read."""
        for spec, _, need in self._equations():
            if any(q.which in need for q in self.quantities):
                spec.check_new_data()

    def _equations(self) -> list[tuple[FormulaSpec, str | None, Any]]:
        needs = (NEEDS_OUTCOME, NEEDS_SELECT)
        return list(zip(self.specs, self.offsets, needs, strict=True))

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """One column for each quantity; NaN where a covariate is missing."""
        parts: list[Any] = []
        offsets: list[Any] = []
        for spec, offset, need in self._equations():
            read = any(q.which in need for q in self.quantities)
            parts.append(rebuild(spec, frame).to_numpy() if read else None)
            known = read and offset is not None
            offsets.append(as_floats(frame[offset], str(offset)) if known else None)
        values = {}
        for q in self.quantities:
            used = [q.which in need for _, _, need in self._equations()]
            X, W = (v if u else None for v, u in zip(parts, used, strict=True))
            a, b = (v if u else None for v, u in zip(offsets, used, strict=True))
            values[q.which] = q.value(Designs(X, W, a, b)) if len(frame) else np.empty(0)
        return pd.DataFrame(values, index=frame.index)


def predict_dask(frame: Any, predictor: FramePredictor) -> Any:
    """A dask Series of one predicted quantity, computed when it is asked for."""
    which = predictor.quantities[0].which
    meta = pd.Series(np.empty(0), name=which, index=frame._meta.index[:0])
    return frame[predictor.columns].map_partitions(_series, predictor, meta=meta)


def _series(frame: pd.DataFrame, predictor: FramePredictor) -> pd.Series:
    return predictor(frame).iloc[:, 0]


def write_predictions(
    frame: pd.DataFrame, number: int, predictor: FramePredictor, folder: str, keep: Sequence[str]
) -> str:
    """Predict for a partition and write one file, whole or not at all."""
    path = os.path.join(folder, f"part-{number:05d}.parquet")
    beside = f"{path}.{os.getpid()}.tmp"
    table = pd.concat([frame[list(keep)], predictor(frame)], axis=1)
    try:
        table.to_parquet(beside, index=False)
        os.replace(beside, path)
    finally:
        if os.path.exists(beside):
            os.remove(beside)
    return path


# -- the model's own rows --------------------------------------------------------------------------


def _designs(rows: Rows, which: str) -> Designs:
    """The rows of a partition, in their sorted order."""
    outcome, select = which in NEEDS_OUTCOME, which in NEEDS_SELECT
    return Designs(
        rows.X.mT.cpu().numpy() if outcome else None,
        rows.W.mT.cpu().numpy() if select else None,
        rows.offset.cpu().numpy() if outcome else None,
        rows.offset_select.cpu().numpy() if select else None,
    )


def predict_partitions(rows: PartitionedRows, quantity: Quantity, cov: Floats) -> Prediction:
    """The weighted mean of all rows' predictions."""
    parts = list(rows.parts.map(_average, quantity))
    mean = sum(part[0] for part in parts) / rows.total_weight
    slope = sum(part[1] for part in parts) / rows.total_weight
    return Prediction(
        np.array([mean]),
        np.array([np.sqrt(slope @ cov @ slope)]),
        pd.Index(["average"]),
        quantity.which not in INDICES,
    )


def _average(rows: Rows, quantity: Quantity) -> tuple[float, Floats]:
    return summed_prediction(quantity, _designs(rows, quantity.which), rows.weight.cpu().numpy())


def partition_effects(
    rows: PartitionedRows,
    quantity: Quantity,
    variables: list[Column],
    atexog: Mapping[str | int, Any],
    *,
    log: bool,
    elastic: bool,
) -> tuple[Floats, Floats]:
    """Weighted means of the rows' effects, (V,), and their Jacobian, (V, P)."""
    parts = list(rows.parts.map(_effects, quantity, variables, dict(atexog), log, elastic))
    value = sum(part[0] for part in parts) / rows.total_weight
    return value, sum(part[1] for part in parts) / rows.total_weight


def _effects(
    rows: Rows,
    quantity: Quantity,
    variables: list[Column],
    atexog: dict[str | int, Any],
    log: bool,
    elastic: bool,
) -> tuple[Floats, Floats]:
    at = held(_designs(rows, quantity.which), variables, atexog)
    return average_effects(
        quantity, at, variables, rows.weight.cpu().numpy(), log=log, elastic=elastic
    )


def mean_row(rows: PartitionedRows, which: str, low: Floats, high: Floats) -> Designs:
    """One row: every column at its weighted mean, a constant one at its value exactly."""
    parts = list(rows.parts.map(_sums, which))
    sums = [None if v[0] is None else sum(v) for v in zip(*parts, strict=True)]
    means = [None if v is None else v / rows.total_weight for v in sums]
    p, ends = rows.shape[0], np.where(low == high, low, np.nan)
    X, W = (
        None if mean is None else np.where(np.isnan(own), mean, own)[None]
        for mean, own in zip(means[:2], (ends[:p], ends[p:]), strict=True)
    )
    return Designs(X, W, means[2], means[3])


def _sums(rows: Rows, which: str) -> tuple[Any, ...]:
    at, weight = _designs(rows, which), rows.weight.cpu().numpy()
    parts = (at.X, at.W, at.offset, at.offset_select)
    return tuple(None if v is None else np.atleast_1d(weight @ v) for v in parts)


def zero_row(at: Designs, constant: Floats) -> Designs:
    """The row with all columns but the constants at zero."""
    p = 0 if at.X is None else at.X.shape[1]
    X = None if at.X is None else np.where(constant[:p], at.X, 0.0)
    W = None if at.W is None else np.where(constant[-at.W.shape[1] :], at.W, 0.0)
    offsets = (None if v is None else np.zeros(1) for v in (at.offset, at.offset_select))
    return replace(at, X=X, W=W, **dict(zip(("offset", "offset_select"), offsets, strict=True)))
