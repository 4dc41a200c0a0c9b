"""Algorithm 1, lines 4 to 14, for rows in partitions: classifiers by sums, labels where rows are.

Everything takes one model or the members of a batch, whose coefficients differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..errors import NotInMemoryError
from ..kernel.rows import Kind, Rows
from ..large.partitions import PartitionedRows
from ..optimize.batches import relabelled
from .first_stage import CDF, LINKS, Classifier, FirstStage, Trained

Coefs = tuple[float, ...] | tuple[tuple[float, ...], ...]
"""Of one classifier, or of each member's."""


def train_partitioned(
    rows: PartitionedRows,
    selection_model: Classifier,
    pseudolabel_model: Classifier,
    penalty: float = 0.0,
) -> FirstStage:
    """``train`` by sums over partitions, for "probit" and "logit"."""
    models = {"selection_model": selection_model, "pseudolabel_model": pseudolabel_model}
    for argument, model in models.items():
        if not isinstance(model, str) or model not in LINKS:
            raise NotInMemoryError(
                f"{argument}={model!r} would need all rows at once, which are in partitions; use "
                f"one of {list(LINKS)}"
            )
    return FirstStage(
        Trained(selection_model, None, rows.fit_binary("select", LINKS[selection_model], penalty)),
        Trained(
            pseudolabel_model, None, rows.fit_binary("outcome", LINKS[pseudolabel_model], penalty)
        ),
        penalty,
    )


@dataclass(frozen=True, slots=True)
class Softening:
    """What turns a partition's rows into the training set D'_tr, where they are."""

    select: tuple[str, Coefs]  # name and coefficients of g_s
    outcome: tuple[str, Coefs]  # of g_y
    soft_selection: float | str | tuple[float, ...]  # one for each member
    soft_pseudolabels: bool

    @classmethod
    def of(
        cls, stage: FirstStage, soft_selection: float | str, soft_pseudolabels: bool
    ) -> Softening:
        fits = [(t.name, t.fit) for t in (stage.select, stage.outcome)]
        select, outcome = (
            (name, tuple(fit.params.tolist())) for name, fit in fits if fit is not None
        )
        return cls(select, outcome, soft_selection, soft_pseudolabels)

    @property
    def kind(self) -> Kind:
        """Of the unlabelled rows."""
        return "closed" if self.soft_selection == 0.0 else "soft"

    def members(self, which: Sequence[int]) -> Softening:
        """Some members of a batch."""

        def some(values: Any) -> Any:
            return tuple(values[i] for i in which) if isinstance(values, tuple) else values

        select, outcome = ((name, some(coef)) for name, coef in (self.select, self.outcome))
        return replace(
            self, select=select, outcome=outcome, soft_selection=some(self.soft_selection)
        )

    def indices(self, rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """Of g_s and of g_y, (n,) or (B, n)."""
        zeta, theta = (rows.X.new_tensor(coef) for _, coef in (self.select, self.outcome))
        return zeta @ rows.W + rows.offset_select, theta @ rows.X + rows.offset

    def values(self, rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """s' and y', (n,) or (B, n); only those of unlabelled rows mean anything."""
        select, outcome = self.indices(rows)
        guess = CDF[self.outcome[0]](outcome)
        labels = guess if self.soft_pseudolabels else (guess > 0.5).to(guess.dtype)
        if self.soft_selection == "rowwise":
            return CDF[self.select[0]](select), labels
        return labels.new_tensor(self.soft_selection)[..., None].expand_as(labels), labels


def train_resampled(
    rows: PartitionedRows, whole: FirstStage, count: int, penalty: float = 0.0
) -> tuple[Softening, torch.Tensor]:
    """Both classifiers for each of ``count`` members of a batch, from the estimates of all rows.

    Returns
    -------
    Softening
        With each member's coefficients, and its s-bar.
    Tensor
        (count,) whether both are at a maximum.
    """
    found = []
    for equation, trained in (("select", whole.select), ("outcome", whole.outcome)):
        assert trained.fit is not None
        start = trained.fit.params.expand(count, -1)
        found.append(rows.fit_binaries(equation, LINKS[trained.name], start, penalty))
    names = whole.select.name, whole.outcome.name
    select, outcome = (
        (name, tuple(map(tuple, fits.params.tolist())))
        for name, fits in zip(names, found, strict=True)
    )
    how = Softening(select, outcome, "rowwise", soft_pseudolabels=False)
    total, weight = rows.sum(soft_sums, how)
    mean = tuple((total / weight).tolist())
    return replace(how, soft_selection=mean), found[0].converged & found[1].converged


def soften_rows(rows: Rows, how: Softening) -> Rows:
    """``soften`` for the rows of a partition."""
    segments = tuple(
        (how.kind if kind == "closed" else kind, low, high) for kind, low, high in rows.segments
    )
    return replace(relabelled(rows, rows.tilt < 0, *how.values(rows)), segments=segments)


def soft_sums(rows: Rows, how: Softening) -> tuple[torch.Tensor, torch.Tensor]:
    """Weighted sum of g_s over the unlabelled rows, and their weight."""
    missing = rows.tilt < 0
    weight, index = rows.weight[..., missing], how.indices(rows)[0][..., missing]
    return (weight * CDF[how.select[0]](index)).sum(-1), weight.sum(-1)


def soft_range(rows: Rows, how: Softening) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Smallest s', smallest and largest y' of the unlabelled rows, of each member's."""
    s, y = (v[..., rows.tilt < 0] for v in how.values(rows))
    if not s.shape[-1]:
        nothing = s.new_full(s.shape[:-1], np.inf)
        return nothing, nothing, -nothing
    return s.amin(-1), y.amin(-1), y.amax(-1)
