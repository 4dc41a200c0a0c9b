"""When the paper's theorem promises that BiasCorr's loss is less biased than Greene's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BiasCondition:
    """eta > 1/(2 - s-bar), the sufficient condition of the paper's theorem."""

    eta: float
    soft_selection: float

    @property
    def threshold(self) -> float:
        return 1.0 / (2.0 - self.soft_selection)

    @property
    def holds(self) -> bool:
        return self.eta > self.threshold

    def __str__(self) -> str:
        relation = ">" if self.holds else "<="
        verdict = (
            "holds: under the theorem's assumptions the bias of BiasCorr's loss is the smaller one"
            if self.holds
            else "does not hold: the theorem says nothing here (it is sufficient, not necessary)"
        )
        return (
            f"missing ratio eta = {self.eta:.4f} {relation} 1/(2 - s-bar) = {self.threshold:.4f}: "
            f"the condition {verdict}"
        )
