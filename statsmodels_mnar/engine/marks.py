"""Marks of rows: numbers that change with anything the likelihood reads.

A mark is a sum over the rows of a hash of a value and the row's place in the data, modulo 2^64. So
it does not depend on the order in which rows are read, on how they are cut into partitions or on
who reads them, and it changes where a value does, or where two rows exchange theirs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .rows import Rows

Marks = dict[str, tuple[int, ...]]
"""By what was marked, in words; one for each column or field."""

# Of splitmix64, as signed integers of 64 bits.
_STEP, _FIRST, _SECOND = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15

_BLOCK = 2**13  # rows whose columns stay in cache

_FIELDS = {
    "the outcome or the selection indicator": ("sign", "floor", "gain", "tilt"),
    "the covariates of the outcome equation": ("X",),
    "the covariates of the selection equation": ("W",),
    "the offsets": ("offset", "offset_select"),
    "the weights": ("weight",),
}


def marks_of(rows: Rows) -> Marks:
    """Marks of everything that the likelihood reads of these rows.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.ones((2, 1))
    >>> s = np.ones(2)
    >>> one, other = (Rows.build(X, X, np.array(y), s) for y in ([1.0, 0.0], [0.0, 1.0]))
    >>> [what for what in marks_of(one) if marks_of(one)[what] != marks_of(other)[what]]
    ['the outcome or the selection indicator']
    """
    fields = {
        what: [torch.atleast_2d(getattr(rows, name)) for name in names]
        for what, names in _FIELDS.items()
    }
    found = {
        what: torch.zeros(sum(map(len, own)), dtype=torch.int64) for what, own in fields.items()
    }
    for start in range(0, rows.n, _BLOCK):
        cut = slice(start, start + _BLOCK)
        place = _mixed(rows.key[cut] * _STEP)
        for what, own in fields.items():
            found[what] += _sums(torch.cat([field[:, cut] for field in own]), place).cpu()
    return {what: tuple(v % 2**64 for v in sums.tolist()) for what, sums in found.items()}


def sum_of(*marks: tuple[int, ...]) -> tuple[int, ...]:
    """Marks of all rows from those of parts of them."""
    return tuple(sum(each) % 2**64 for each in zip(*marks, strict=True))


def _sums(field: Tensor, place: Tensor) -> Tensor:
    """Sums of the hashes of each line of the field, (m, n), which is overwritten."""
    number = torch.arange(len(field), device=field.device)[:, None] * _FIRST
    bits = field.add_(0.0).view(torch.int64)  # -0.0 is 0.0
    return _mixed(bits.bitwise_xor_(place).add_(number)).sum(-1)


def _mixed(bits: Tensor) -> Tensor:
    """A permutation of the integers of 64 bits in which every bit moves every other one."""
    bits = bits.bitwise_xor_(bits >> 30).mul_(_FIRST)
    bits = bits.bitwise_xor_(bits >> 27).mul_(_SECOND)
    return bits.bitwise_xor_(bits >> 31)
