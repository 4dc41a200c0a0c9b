"""What is known of all rows that are in partitions, from one pass over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from ..design import Design
from ..design.checks import in_span
from ..design.chunks import Look, Recipe
from ..design.data import Counts
from ..design.partitioned import Columns, PartitionedDesign
from ..design.values import Dropped, warn_dropped
from ..errors import DesignError
from ..kernel.rows import Rows
from ..large.partitions import PartitionedRows

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Facts:
    """Of one partition, or of all."""

    labelled: Floats  # (., q) triangular: inner products of (X, W, offset_select, 1)
    unlabelled: Floats  # (., q)
    low: Floats
    high: Floats
    whole: NDArray[np.bool_]
    same: NDArray[np.bool_]
    weight: tuple[float, float]  # of all rows, of labelled ones
    labels: frozenset[float]

    def __add__(self, other: _Facts) -> _Facts:
        return _Facts(
            _triangle(np.vstack([self.labelled, other.labelled])),
            _triangle(np.vstack([self.unlabelled, other.unlabelled])),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.whole & other.whole,
            self.same & other.same,
            (self.weight[0] + other.weight[0], self.weight[1] + other.weight[1]),
            self.labels | other.labels,
        )


def _triangle(matrix: Floats) -> Floats:
    """R of the QR decomposition: fewer rows with the same inner products of the columns."""
    return np.asarray(np.linalg.qr(matrix, mode="r")) if len(matrix) > matrix.shape[1] else matrix


def _facts(rows: Rows) -> _Facts:
    columns = torch.cat([rows.X, rows.W])
    all_columns = torch.cat([columns, rows.offset_select[None], torch.ones_like(columns[:1])])
    seen = rows.tilt > 0
    labelled, unlabelled = (
        _triangle(all_columns[:, rows_].mT.cpu().numpy()) for rows_ in (seen, ~seen)
    )
    ends = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)
    if rows.n:
        ends = columns.amin(-1).cpu().numpy(), columns.amax(-1).cpu().numpy()
    same = [[_equal(x, w) for w in rows.W] for x in rows.X]
    labels = torch.unique(rows.sign[seen]).tolist()
    return _Facts(
        labelled,
        unlabelled,
        *ends,
        (columns % 1.0 == 0.0).all(-1).cpu().numpy(),
        np.array(same, dtype=bool).reshape(len(rows.X), len(rows.W)),
        (float(rows.weight.sum()), float(rows.weight[seen].sum())),
        frozenset(0.5 * (1.0 + sign) for sign in labels),
    )


def _equal(x: torch.Tensor, w: torch.Tensor) -> bool:
    return torch.equal(x[:16], w[:16]) and torch.equal(x, w)


def describe(recipe: Recipe, looks: list[Look], rows: PartitionedRows) -> PartitionedDesign:
    """Check the rows together, and write down what is known of them."""
    assert recipe.specs is not None and recipe.outcome.lhs is not None
    outcome_missing = sum(look.dropped.outcome for look in looks)
    missing = sum(look.n_rows for look in looks) - rows.n - outcome_missing
    dropped = Dropped(missing=missing, outcome=outcome_missing)
    if rows.n == 0:
        raise DesignError(
            f"no rows are left: {dropped.missing} have missing covariates, {dropped.outcome} are "
            "selected without an outcome."
        )
    warn_dropped(dropped, recipe.outcome.lhs, recipe.select_name)
    found = list(rows.parts.map(_facts))
    facts = found[0]
    for one in found[1:]:
        facts += one
    if rows.total_weight == 0:
        raise DesignError(f"{recipe.weight_kind} must be >= 0 and not all zero.")
    outcome, select = recipe.specs
    given = {
        "weights" if role.endswith("weights") else role
        for role, name in recipe.columns_by_role.items()
        if name is not None
    }
    labelled = rows.n - rows.count("closed")
    counted = recipe.weight_kind == "freq_weights"
    counts = Counts(
        rows=rows.n,
        labelled=labelled,
        observations=facts.weight[0] if counted else float(rows.n),
        selected=facts.weight[1] if counted else float(labelled),
        labels=tuple(sorted(facts.labels)),
    )
    return PartitionedDesign(
        outcome_names=outcome.column_names,
        select_names=select.column_names,
        outcome_name=recipe.outcome.lhs,
        select_name=recipe.select_name,
        outcome_spec=outcome,
        select_spec=select,
        weight_kind=recipe.weight_kind,
        given=frozenset(given),
        dropped=dropped,
        counts=counts,
        columns=Columns(facts.low, facts.high, facts.whole, facts.same),
        sketch=_sketch(recipe, facts, "offset_select" in given),
        n_partitions=len(rows.parts),
        has_constant=_spans_constant(facts, len(outcome.column_names)),
    )


def _spans_constant(facts: _Facts, p: int) -> bool:
    matrix = np.vstack([facts.labelled, facts.unlabelled])
    return in_span(matrix[:, -1:], matrix[:, :p])


def _sketch(recipe: Recipe, facts: _Facts, offset: bool) -> Design:
    """A design of a few rows on which the checks of rank and span find what they find on all."""
    assert recipe.specs is not None and recipe.outcome.lhs is not None
    outcome, select = recipe.specs
    p, k = len(outcome.column_names), len(select.column_names)
    matrix = np.vstack([facts.labelled, facts.unlabelled])
    s = np.r_[np.ones(len(facts.labelled)), np.zeros(len(facts.unlabelled))]
    return Design(
        y=np.where(s == 1, 0.0, np.nan),
        s=s,
        X=matrix[:, :p],
        W=matrix[:, p : p + k],
        outcome_names=outcome.column_names,
        select_names=select.column_names,
        outcome_name=recipe.outcome.lhs,
        select_name=recipe.select_name,
        index=pd.RangeIndex(len(s)),
        kept=np.arange(len(s)),
        offset_select=matrix[:, p + k] if offset else None,
    )
