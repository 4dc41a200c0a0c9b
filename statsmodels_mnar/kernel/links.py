"""Links: the distribution of the outcome's own error, and functions of the normal one.

A link is one object. It says how the kernels evaluate it, how large its error's variance is, how
many nodes it needs, and what a summary calls its scale. To add one, write a class and give it a
line in :data:`LINKS`.

The outcome is 1 with probability F(x), x its index with the errors in it. The kernels read
z = x for y = 1 and z = -x for y = 0: the probability of the label is that of an error below z. Of a
symmetric error it is F(z) for both labels; for others the ``sign`` of the label says which one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

SQRT_HALF = math.sqrt(0.5)
LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)
LOG2_E = 1.0 / math.log(2.0)  # torch's exp2 takes a third of its exp on a CPU
SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


class Link(Protocol):
    """What the kernels and the summary ask of a link.

    ``sign`` is +1 for rows with y = 1 and -1 for those with y = 0, in a shape that broadcasts to
    that of z. A symmetric link does not read it.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # of its coefficients in a summary
    variance: ClassVar[float]  # of the outcome's own error
    entire: ClassVar[bool]  # grows in the complex plane as a normal cdf does, without poles
    strip: ClassVar[float]  # |Im z| below which it is analytic and bounded, if not entire
    shortens: ClassVar[bool]  # fewer nodes are as accurate on shorter intervals
    floor: ClassVar[float]  # of an integral beside its normal weight; smaller ones need log space
    # Panels of z on which the function is smooth, and Gauss-Legendre nodes on each for an error of
    # 1e-13; outermost panels end where the function is 0 or 1.
    panels: ClassVar[tuple[float, ...]]
    panel_nodes: ClassVar[tuple[int, ...]]

    def derivatives(self, z: Tensor, sign: Tensor, weight: Tensor, out: Sequence[Tensor]) -> None:
        """Write the label's probability and its first derivatives in z, each times the weight.

        As many as there are arrays in ``out``, at most three. ``z`` is overwritten: this is the
        innermost work, where each pass over an array counts.
        """

    def log_cdf(self, z: Tensor, sign: Tensor | float = 1.0) -> Tensor:
        """Return the log of the label's probability."""

    def ratios(self, z: Tensor, sign: Tensor | float = 1.0) -> tuple[Tensor, Tensor]:
        """Return the first two derivatives over the probability, stable for z << 0."""

    def terms(self, z: Tensor, sign: Tensor | float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
        """Return the log of the probability, and its ratios."""


class _Named:
    """A link that is pickled as the constant of this module that it is."""

    name: ClassVar[str]

    def __reduce__(self) -> str:
        return self.name.upper()

    def terms(self: Link, z: Tensor, sign: Tensor | float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
        return self.log_cdf(z, sign), *self.ratios(z, sign)


@dataclass(frozen=True)
class Logit(_Named):
    """Logistic error: F(x) = 1/(1 + exp(-x)), with poles at +-i pi."""

    name: ClassVar[str] = "logit"
    title: ClassVar[str] = "logit scale"
    variance: ClassVar[float] = math.pi**2 / 3.0
    entire: ClassVar[bool] = False
    strip: ClassVar[float] = math.pi
    shortens: ClassVar[bool] = True
    floor: ClassVar[float] = 1e-8
    panels: ClassVar[tuple[float, ...]] = (-10.0, -3.0, 3.0, 10.0)
    panel_nodes: ClassVar[tuple[int, ...]] = (22, 15, 20, 15, 22)

    def derivatives(self, z: Tensor, sign: Tensor, weight: Tensor, out: Sequence[Tensor]) -> None:
        z.sigmoid_()
        torch.mul(weight, z, out=out[0])
        for j, one in enumerate(out[1:]):  # F' = F - F F, F'' = F' - 2 F' F
            torch.addcmul(out[j], out[j], z, value=-(j + 1.0), out=one)

    def log_cdf(self, z: Tensor, sign: Tensor | float = 1.0) -> Tensor:
        return logsigmoid(z)

    def ratios(self, z: Tensor, sign: Tensor | float = 1.0) -> tuple[Tensor, Tensor]:
        upper = torch.sigmoid(-z)
        return upper, upper * (2.0 * upper - 1.0)


@dataclass(frozen=True)
class Probit(_Named):
    """Standard normal error."""

    name: ClassVar[str] = "probit"
    title: ClassVar[str] = "probit scale"
    variance: ClassVar[float] = 1.0
    entire: ClassVar[bool] = True
    strip: ClassVar[float] = math.inf
    shortens: ClassVar[bool] = False
    floor: ClassVar[float] = 1e-8
    panels: ClassVar[tuple[float, ...]] = ()
    panel_nodes: ClassVar[tuple[int, ...]] = ()

    def derivatives(self, z: Tensor, sign: Tensor, weight: Tensor, out: Sequence[Tensor]) -> None:
        zero = z.new_zeros(())
        torch.mul(z, -SQRT_HALF, out=out[0]).erfc_()
        torch.addcmul(zero, out[0], weight, value=0.5, out=out[0])
        if len(out) > 1:
            torch.addcmul(zero, z, z, value=-0.5 * LOG2_E, out=out[1]).exp2_()
            torch.addcmul(zero, out[1], weight, value=INV_SQRT_2PI, out=out[1])
        if len(out) > 2:
            torch.addcmul(zero, z, out[1], value=-1.0, out=out[2])

    def log_cdf(self, z: Tensor, sign: Tensor | float = 1.0) -> Tensor:
        return log_ndtr(z)

    def ratios(self, z: Tensor, sign: Tensor | float = 1.0) -> tuple[Tensor, Tensor]:
        ratio = mills(z)
        return ratio, -z * ratio

    def terms(self, z: Tensor, sign: Tensor | float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
        value, ratio = log_ndtr_and_mills(z)
        return value, ratio, -z * ratio


@dataclass(frozen=True)
class Cloglog(_Named):
    """Extreme value error: F(x) = 1 - exp(-exp(x)), the link of grouped proportional hazards.

    It has no poles, but in the complex plane exp(-exp(x)) is of the size exp(-exp(Re x) cos(Im x)):
    close to its size on the real line only for a small Im x, and where it is not small.
    """

    name: ClassVar[str] = "cloglog"
    title: ClassVar[str] = "cloglog scale"
    variance: ClassVar[float] = math.pi**2 / 6.0
    entire: ClassVar[bool] = False
    strip: ClassVar[float] = math.pi / 2.0  # where cos(Im x) is still positive
    shortens: ClassVar[bool] = False
    floor: ClassVar[float] = 1e-3
    panels: ClassVar[tuple[float, ...]] = (-10.0, -3.5, -1.5, 0.0, 1.5, 3.5, 10.0)
    panel_nodes: ClassVar[tuple[int, ...]] = (22, 15, 15, 12, 12, 15, 15, 22)

    def derivatives(self, z: Tensor, sign: Tensor, weight: Tensor, out: Sequence[Tensor]) -> None:
        hazard = z.mul_(sign).clamp_(max=_CLOGLOG_MAX).exp_()
        zero = torch.neg(hazard).exp_().mul_(weight)  # of P(y = 0)
        one = torch.neg(hazard, out=out[0]).expm1_().neg_().mul_(weight)  # without cancellation
        torch.where(sign > 0.0, one, zero, out=out[0])
        if len(out) > 1:
            torch.mul(zero, hazard, out=out[1])
        if len(out) > 2:
            torch.mul(hazard.neg_().add_(1.0).mul_(sign), out[1], out=out[2])

    def log_cdf(self, z: Tensor, sign: Tensor | float = 1.0) -> Tensor:
        x, one = self._index(z, sign)
        hazard = torch.exp(x)
        return torch.where(one, self._log_one(x, hazard), -hazard)

    def ratios(self, z: Tensor, sign: Tensor | float = 1.0) -> tuple[Tensor, Tensor]:
        x, one = self._index(z, sign)
        hazard = torch.exp(x)
        ratio = torch.where(one, torch.exp(x - hazard - self._log_one(x, hazard)), hazard)
        return ratio, sign * ratio * (1.0 - hazard)

    @staticmethod
    def _index(z: Tensor, sign: Tensor | float) -> tuple[Tensor, Tensor]:
        """Return x = sign * z, where squares of exp(x) do not overflow, and whether y = 1."""
        side = torch.as_tensor(sign, dtype=z.dtype, device=z.device)
        return (side * z).clamp(max=_CLOGLOG_MAX), side > 0.0

    @staticmethod
    def _log_one(x: Tensor, hazard: Tensor) -> Tensor:
        """Return log(1 - exp(-exp(x))); x itself, to rounding, where exp(x) is tiny."""
        tiny = x < -40.0
        return torch.where(tiny, x, torch.log(-torch.expm1(-torch.where(tiny, 1.0, hazard))))


_CLOGLOG_MAX = 300.0  # index at which the probability of y = 0 is zero by any measure

LOGIT, PROBIT, CLOGLOG = Logit(), Probit(), Cloglog()
LINKS: dict[str, Link] = {link.name: link for link in (LOGIT, PROBIT, CLOGLOG)}


def as_link(link: str | Link, offered: tuple[str, ...], who: str) -> Link:
    """Return the link of this name, or the object itself, if it is one of those offered."""
    name = link if isinstance(link, str) else getattr(link, "name", None)
    if name not in offered:
        more = "; for a probit outcome use ProbitSelection" if name == PROBIT.name else ""
        raise ValueError(
            f"link={link!r}: {who} takes {' or '.join(repr(each) for each in offered)}{more}"
        )
    return LINKS[name]


# -- the normal distribution, with relative accuracy in the tails ----------------------------------


log_ndtr = torch.special.log_ndtr


def ndtr(z: Tensor) -> Tensor:
    """Standard normal cdf; erfc keeps the relative accuracy that 1 + erf loses for z << 0."""
    return 0.5 * torch.erfc(-SQRT_HALF * z)


def log_pdf(z: Tensor) -> Tensor:
    """Log of the standard normal density."""
    return -0.5 * z * z - LOG_SQRT_2PI


def mills(z: Tensor) -> Tensor:
    """Inverse Mills ratio phi(z)/PHI(z), finite for every finite z."""
    return SQRT_2_OVER_PI / torch.special.erfcx(-SQRT_HALF * z)


_FAR = -10.0  # below it the density loses digits beside the probability


def log_ndtr_and_mills(z: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`log_ndtr` and :func:`mills`, in a third of the time where z is not far below zero."""
    if z.device.type != "cpu":  # where looking for such z costs more
        return log_ndtr(z), mills(z)
    tail = torch.erfc(SQRT_HALF * z.abs()).mul_(0.5)
    below = z < 0.0
    value = torch.where(below, torch.log(tail), torch.log1p(-tail))
    density = torch.exp2(-0.5 * LOG2_E * z * z).mul_(INV_SQRT_2PI)
    ratio = density.div_(torch.where(below, tail, 1.0 - tail))
    far = z < _FAR
    if far.any():
        value[far], ratio[far] = log_ndtr(z[far]), mills(z[far])
    return value, ratio


def upper_mills(z: Tensor) -> Tensor:
    """Mills ratio PHI(-z)/phi(z), finite for every z > 0."""
    return torch.special.erfcx(SQRT_HALF * z) / SQRT_2_OVER_PI


def log_ndtr_difference(high: Tensor, low: Tensor) -> Tensor:
    """log(PHI(high) - PHI(low)); minus infinity where high is not above low."""
    # In the upper tail by symmetry, where the two probabilities are not close to one.
    upper = low > 0.0
    high, low = torch.where(upper, -low, high), torch.where(upper, -high, low)
    log_high = log_ndtr(high)
    ratio = torch.clamp(log_ndtr(low) - log_high, max=0.0)
    found = log_high + torch.log(-torch.expm1(ratio))
    # Close together: the density in the middle times the gap, to the order of gap^6.
    gap, middle = high - low, 0.5 * (high + low)
    m2, g2 = middle**2, gap**2
    bend = g2 * (m2 - 1.0) / 24.0 + g2**2 * (m2**2 - 6.0 * m2 + 3.0) / 1920.0
    close = log_pdf(middle) + torch.log(gap.clamp(min=0.0)) + torch.log1p(bend)
    return torch.where(g2 * (1.0 + m2) < 1e-4, close, found)
