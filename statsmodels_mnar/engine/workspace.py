"""Memory that the kernels reuse from block to block."""

from __future__ import annotations

import math

from torch import Tensor


class Workspace:
    """Wide arrays of one evaluation.

    Fresh arrays of a few megabytes go back to the system after every block, and faulting their
    pages in again costs as much as the arithmetic on them.
    """

    __slots__ = ("_flat",)

    def __init__(self) -> None:
        self._flat: Tensor | None = None

    def arrays(self, count: int, shape: tuple[int, ...], like: Tensor) -> tuple[Tensor, ...]:
        """``count`` arrays of this shape with arbitrary content, valid until the next call.

        Examples
        --------
        >>> import torch
        >>> a, b = Workspace().arrays(2, (3, 4), torch.zeros(1))
        >>> a.shape
        torch.Size([3, 4])
        """
        size = count * math.prod(shape)
        if self._flat is None or self._flat.numel() < size:
            self._flat = like.new_empty(size)
        return self._flat[:size].view(count, *shape).unbind(0)
