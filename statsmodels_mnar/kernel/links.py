"""Links: the distribution of the outcome's own error, as the kernels read it."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from .special import INV_SQRT_2PI, SQRT_HALF, log_ndtr, mills


class Link(Protocol):
    """Distribution of the outcome's own error."""

    entire: bool  # no poles in the complex plane

    def derivatives(self, x: Tensor, cdf: Tensor, pdf: Tensor, curve: Tensor) -> None:
        """Write the cdf, the density and the density's derivative at x."""

    def log_cdf(self, x: Tensor) -> Tensor: ...

    def ratios(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """density/cdf and (density's derivative)/cdf, stable for x << 0."""


class Logit:
    entire = False

    def derivatives(self, x: Tensor, cdf: Tensor, pdf: Tensor, curve: Tensor) -> None:
        torch.sigmoid(x, out=cdf)
        torch.addcmul(cdf, cdf, cdf, value=-1.0, out=pdf)
        torch.addcmul(pdf, pdf, cdf, value=-2.0, out=curve)

    def log_cdf(self, x: Tensor) -> Tensor:
        return logsigmoid(x)

    def ratios(self, x: Tensor) -> tuple[Tensor, Tensor]:
        upper = torch.sigmoid(-x)
        return upper, upper * (2.0 * upper - 1.0)


class Probit:
    entire = True

    def derivatives(self, x: Tensor, cdf: Tensor, pdf: Tensor, curve: Tensor) -> None:
        torch.mul(x, -SQRT_HALF, out=cdf).erfc_().mul_(0.5)
        torch.addcmul(x.new_zeros(()), x, x, value=-0.5, out=pdf).exp_().mul_(INV_SQRT_2PI)
        torch.mul(x, pdf, out=curve).neg_()

    def log_cdf(self, x: Tensor) -> Tensor:
        return log_ndtr(x)

    def ratios(self, x: Tensor) -> tuple[Tensor, Tensor]:
        ratio = mills(x)
        return ratio, -x * ratio


LOGIT, PROBIT = Logit(), Probit()
