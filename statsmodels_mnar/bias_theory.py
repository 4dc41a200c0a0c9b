"""The paper's bias analysis: its lemmas, its theorem, and the expectations they stand for.

Notation of the paper (its section "Bias Analysis Regarding Loss Function" and appendix C): f and
f-hat are the true and the estimated probability of the row's own label, p and p-hat the true and
the estimated probability of selection, s-bar the soft selection value and eta the missing ratio.
The bias of a loss L is |L* - E[L]| with L* = -mean log f, the loss of the fully observed rows.

The lemmas are coded as printed. `expected_loss` is the expectation they were meant to be;
docs/bias-theory.md tells where the two part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from .types import Floats


@dataclass(frozen=True, slots=True)
class BiasCondition:
    """eta > 1/(2 - s-bar), the sufficient condition of the paper's theorem.

    Attributes
    ----------
    eta : float
        Share of rows without a label.
    soft_selection : float
        s-bar.
    """

    eta: float
    soft_selection: float

    @property
    def threshold(self) -> float:
        """1/(2 - s-bar)."""
        return 1.0 / (2.0 - self.soft_selection)

    @property
    def holds(self) -> bool:
        """Whether eta exceeds the threshold."""
        return self.eta > self.threshold

    def __str__(self) -> str:
        relation, verdict = (">", "holds") if self.holds else ("<=", "does not hold")
        return (
            f"missing ratio eta = {self.eta:.4f} {relation} 1/(2 - s-bar) = {self.threshold:.4f}: "
            f"the condition of the paper's theorem {verdict}. It is sufficient, not necessary, and "
            "needs more than the theorem states, so it does not choose a method for you: "
            "compare() fits Greene's model to the same data, and labels that you hide yourself "
            "show which of the two predicts better (docs/bias-theory.md)"
        )


def greene_bias(f: Any, f_hat: Any, p: Any, p_hat: Any) -> float:
    """Lemma 1: the bias of Greene's loss, |mean log(f / (p-hat + p p-hat (f-hat - 1)))|.

    Parameters
    ----------
    f, f_hat : array_like
        (n,) true and estimated probability of each row's label.
    p, p_hat : array_like
        (n,) true and estimated probability of selection.

    Examples
    --------
    >>> round(greene_bias([0.8], [0.8], [0.3], [0.3]), 4)
    1.0427
    """
    f, f_hat, p, p_hat = _rows(f=f, f_hat=f_hat, p=p, p_hat=p_hat)
    return float(abs(np.mean(np.log(f) - _log(_mixed(f_hat, p, p_hat)))))


def biascorr_bias(
    f: Any, f_hat: Any, p: Any, p_hat: Any, soft_selection: float, eta: float
) -> float:
    """Lemma 2: the bias of BiasCorr's loss.

    |mean log(f / (p-hat' + (p + s-bar eta) p-hat' (f-hat' - 1)))|, where f-hat' is the probability
    of the label y' that BiasCorr trains on and p-hat' that of the selection value s'. The theorem's
    proof takes f-hat' = f-hat and p-hat' = p + s-bar eta.

    Parameters
    ----------
    f : array_like
        (n,) true probability of each row's label.
    f_hat, p_hat : array_like
        (n,) f-hat' and p-hat'.
    p : array_like
        (n,) true probability of selection.
    soft_selection, eta : float

    Examples
    --------
    >>> round(biascorr_bias([0.8], [0.8], [0.3], [0.51], soft_selection=0.3, eta=0.7), 4)
    0.5578
    """
    f, f_hat, p, p_hat = _rows(f=f, f_hat=f_hat, p=p, p_hat=p_hat)
    _check_share("soft_selection", soft_selection)
    _check_share("eta", eta)
    return float(abs(np.mean(np.log(f) - _log(_mixed(f_hat, p + soft_selection * eta, p_hat)))))


@dataclass(frozen=True, slots=True)
class TheoremTerms:
    """What the theorem's proof computes."""

    greene: Floats  # (n,) denominators of Lemma 1 with p-hat = p
    biascorr: Floats  # (n,) denominators of Lemma 2 with p-hat' = p + s-bar eta
    term1: float  # 1 - s-bar eta - 2 mean p
    term2: float  # mean of f-hat (2p + s-bar eta)
    bound: float  # s-bar eta (term 1 + term 2), the mean of DIFF

    @property
    def diff(self) -> Floats:
        """(n,) DIFF(i) of the proof."""
        return self.biascorr - self.greene

    @property
    def difference(self) -> float:
        """mean log of BiasCorr's denominators less that of Greene's: E[L] - E[L'] of the lemmas.

        It is Bias(L) - Bias(L') where both expected losses are above L*. NaN where a denominator is
        not positive.
        """
        return float(np.mean(_log(self.biascorr) - _log(self.greene)))

    @property
    def rowwise(self) -> bool:
        """0 < Greene's denominator <= BiasCorr's <= 1 on every row.

        Then difference >= bound, because log a - log b >= a - b for 0 < b <= a <= 1. The proof uses
        the inequality for the sum without asking this of the rows.
        """
        return bool(
            ((self.greene > 0) & (self.greene <= self.biascorr) & (self.biascorr <= 1)).all()
        )


def theorem_terms(f_hat: Any, p: Any, soft_selection: float, eta: float) -> TheoremTerms:
    """The terms of the theorem's inequality, under the assumptions of its proof.

    Parameters
    ----------
    f_hat : array_like
        (n,) estimated probability of each row's label, the same for both methods.
    p : array_like
        (n,) true probability of selection, whose mean is 1 - eta.
    soft_selection, eta : float

    Examples
    --------
    >>> terms = theorem_terms(f_hat=[0.8, 0.8], p=[0.3, 0.3], soft_selection=0.3, eta=0.7)
    >>> terms.rowwise, bool(terms.difference >= terms.bound > 0)
    (True, True)
    """
    f_hat, p = _rows(f_hat=f_hat, p=p)
    _check_share("soft_selection", soft_selection)
    _check_share("eta", eta)
    extra = soft_selection * eta
    term1 = float(1.0 - extra - 2.0 * p.mean())
    term2 = float(np.mean(f_hat * (2.0 * p + extra)))
    return TheoremTerms(
        greene=_mixed(f_hat, p, p),
        biascorr=_mixed(f_hat, p + extra, p + extra),
        term1=term1,
        term2=term2,
        bound=extra * (term1 + term2),
    )


def expected_loss(p: Any, labelled: Any, unlabelled: Any) -> float:
    """E[L] exactly: -mean of p log(labelled) + (1 - p) log(unlabelled).

    The lemmas' proofs write log(E[.]) for it, which is never smaller than E[log(.)], with one
    p-hat for both selection values.

    Parameters
    ----------
    p : array_like
        (n,) true probability of selection.
    labelled, unlabelled : array_like
        (n,) what the row contributes to the likelihood (inside the log) if it is selected and if it
        is not. With accurate models that are independent given x, f-hat p-hat and 1 - p-hat for
        Greene's method; for BiasCorr f-hat p-hat and ((1 - s-bar) + s-bar f-hat') times
        `soft_probability`.

    Examples
    --------
    >>> round(expected_loss([0.3], [0.8 * 0.3], [0.7]), 4)
    0.6778
    """
    p, labelled, unlabelled = _rows(p=p, labelled=labelled, unlabelled=unlabelled)
    return -float(np.mean(p * np.log(labelled) + (1.0 - p) * np.log(unlabelled)))


def soft_probability(index: Any, soft_selection: float, rho: float = 0.0) -> Floats:
    """BiasCorr's probability of the selection value s-bar, the draws integrated out.

    E PHI((2 s-bar - 1)(w'gamma + rho e)/sqrt(1 - rho^2)) over e, in closed form.

    Parameters
    ----------
    index : array_like
        (n,) w'gamma.
    soft_selection, rho : float

    Examples
    --------
    >>> soft_probability([-1.0], 0.25).round(4)
    array([0.6915])
    """
    _check_share("soft_selection", soft_selection)
    slope = 2.0 * soft_selection - 1.0
    scale = np.sqrt(1.0 - rho**2 + (slope * rho) ** 2)
    return ndtr(slope * np.asarray(index, dtype=float) / scale)


def cortes_bound(n_distinct: int, rarest: float, delta: float = 0.05) -> float:
    """How far a_t/b_t may be from P(s = 1 | t) (Cortes et al. 2008, the paper's Lemma 3).

    With probability 1 - delta no group of the labelled rows is further off than
    sqrt((log 2a' + log 1/delta) / (p_0 n)).

    Parameters
    ----------
    n_distinct : int
        a', the number of distinct groups among the labelled rows.
    rarest : float
        p_0 n, the expected number of rows of the rarest group in the unbiased sample of n rows.
    delta : float

    Notes
    -----
    The lemma is for labelled rows that were drawn from the unbiased sample itself. BiasCorr* draws
    the two apart, and a_t/b_t may exceed one.

    Examples
    --------
    >>> round(cortes_bound(n_distinct=50, rarest=400), 4)
    0.1378
    """
    if n_distinct < 1 or not rarest > 0:
        raise ValueError(f"n_distinct={n_distinct!r} and rarest={rarest!r} must be positive")
    if not 0 < delta < 1:
        raise ValueError(f"delta={delta!r} must be between 0 and 1")
    return float(np.sqrt((np.log(2.0 * n_distinct) - np.log(delta)) / rarest))


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name}={value!r} must be between 0 and 1")


def _mixed(f_hat: Floats, select: Floats, p_hat: Floats) -> Floats:
    """p-hat + select * p-hat * (f-hat - 1), the lemmas' denominator."""
    return p_hat * (1.0 - select * (1.0 - f_hat))


def _log(values: Floats) -> Floats:
    """Logarithm, NaN where the lemmas' denominator is no probability."""
    return np.log(np.where(values > 0, values, np.nan))


def _rows(**arrays: Any) -> list[Floats]:
    """Arrays of one length; probabilities but for p-hat', which the proof lets exceed one."""
    found = {name: np.atleast_1d(np.asarray(v, dtype=float)) for name, v in arrays.items()}
    if len({v.shape for v in found.values()}) > 1 or next(iter(found.values())).ndim != 1:
        shapes = {name: v.shape for name, v in found.items()}
        raise ValueError(f"the arrays must have one value for each row, got shapes {shapes}")
    for name, v in found.items():
        if not (v >= 0).all() or (name != "p_hat" and not (v <= 1).all()):
            raise ValueError(f"{name} must hold probabilities, got values outside [0, 1]")
    return list(found.values())
