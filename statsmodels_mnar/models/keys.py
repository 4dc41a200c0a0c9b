"""Rows in partitions by the values of other columns of the data: clusters."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from ..errors import DesignError
from ..inference.covariance import Meat, cluster_sums, joined_sums, meat_of_sums
from ..kernel.forms import Form
from ..kernel.rows import Rows
from ..large.partitions import PartitionedObjective, PartitionedRows
from ..large.resamples import Clusters, Codes
from ..optimize.objective import Objective
from .large import Frames


def meat_by_keys(
    objective: PartitionedObjective,
    frames: Frames,
    theta: torch.Tensor,
    columns: tuple[str, ...],
    *,
    use_correction: bool,
) -> Meat:
    """Meat of clusters that are told apart by one or two columns of the data."""
    pairs = objective.rows.parts.zip(frames.read(columns))
    parts = list(pairs.map(_score_sums, objective.form, theta))
    return meat_of_sums(joined_sums(parts), objective.rows.n, use_correction=use_correction)


def _score_sums(pair: tuple[Rows, pd.DataFrame], form: Form, theta: torch.Tensor) -> pd.DataFrame:
    """Weighted row scores of a partition, summed over rows with the same keys."""
    rows, keys = pair[0], _keys(pair)
    scores = (
        Objective(rows, form).row_scores(theta).cpu().numpy()
        if rows.n
        else np.empty((0, theta.shape[1]))
    )
    return cluster_sums(scores, rows.unsort(rows.weight).cpu().numpy(), keys)


def find_clusters(rows: PartitionedRows, frames: Frames, column: str) -> Clusters:
    """Clusters of rows that have the same value of a column, in the order of the data."""
    pairs = rows.parts.zip(frames.read([column]))
    values = pd.concat(list(pairs.map(_distinct))).drop_duplicates()
    if len(values) < 2:
        raise ValueError(f"groups={column!r} has fewer than two clusters")
    codes = pairs.derive(_codes, pd.Index(values), keep=True)
    return Clusters(codes, len(values))


def _keys(pair: tuple[Rows, pd.DataFrame]) -> pd.DataFrame:
    """The keys of a partition's rows, in the order of the data."""
    rows, frame = pair
    keys = frame.loc[rows.unsort(rows.key).cpu().numpy()]
    if keys.isna().any(axis=None):
        row = keys.index[keys.isna().any(axis=1)][0]
        raise DesignError(f"groups {list(keys.columns)} are missing in row {row} of the data")
    return keys


def _distinct(pair: tuple[Rows, pd.DataFrame]) -> pd.Series:
    return _keys(pair).iloc[:, 0].drop_duplicates()


def _codes(pair: tuple[Rows, pd.DataFrame], values: pd.Index) -> Codes:
    rows, _ = pair
    codes = values.get_indexer(_keys(pair).iloc[:, 0])
    return Codes(codes[rows.order.cpu().numpy()].astype(np.int64))
