"""Standard normal draws that belong to a row, not to a position in a stream.

Every draw is a function of (seed, key of the row, number of the draw) alone, so a row gets the same
draws whatever the block size, the order of the rows or the device. In one dimension the designs
differ only in how a row's R points are spread, given one uniform number of that row:

==========  ==========================================================================
random      R independent uniforms
antithetic  R/2 independent uniforms and their complements
halton      the base-2 Halton points, shifted modulo 1 by the row's uniform
sobol       scrambled Sobol points, digitally shifted (xor) by the row's uniform
mlhs        modified Latin hypercube (Hess, Train and Polak 2006): (r + the row's uniform)/R
==========  ==========================================================================
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import torch
from scipy.stats import qmc
from torch import Tensor

DrawKind = Literal["random", "antithetic", "halton", "sobol", "mlhs"]
DRAW_KINDS: tuple[str, ...] = get_args(DrawKind)

_BITS = 52  # of a point; one fewer than float64 holds, so that the half step added below is exact
_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15, the increment of SplitMix64, as int64


def _shift_right(x: Tensor, k: int) -> Tensor:
    """Logical right shift of int64 (torch's is arithmetic)."""
    return (x >> k) & ((1 << (64 - k)) - 1)


def _mix(x: Tensor) -> Tensor:
    """SplitMix64's finaliser (Steele, Lea and Flood 2014): a bijection of 64 bits."""
    x = (x ^ _shift_right(x, 30)) * -4658895280553007687
    x = (x ^ _shift_right(x, 27)) * -7723592293110705685
    return x ^ _shift_right(x, 31)


def _row_state(keys: Tensor, seed: int) -> Tensor:
    """Start of each row's own stream, (n,)."""
    start = int(np.random.SeedSequence(seed).generate_state(1, np.uint64).astype(np.int64)[0])
    return _mix(_mix(keys * _GOLDEN + start))


def _bits(state: Tensor, number: Tensor) -> Tensor:
    """Draw ``number`` of the streams, as integers of ``_BITS`` bits."""
    return _shift_right(_mix(state + (number + 1) * _GOLDEN), 64 - _BITS)


def _to_unit(bits: Tensor) -> Tensor:
    """Integers of ``_BITS`` bits -> the open unit interval."""
    return (bits.to(torch.float64) + 0.5) * 2.0**-_BITS


@lru_cache(maxsize=32)
def _base_bits(kind: str, n_draws: int, seed: int) -> np.ndarray:
    """The R points of a low-discrepancy sequence, as integers of ``_BITS`` bits."""
    if kind == "halton":
        unit = qmc.Halton(d=1, scramble=False).random(n_draws)[:, 0]
    else:
        power = max(int(np.ceil(np.log2(n_draws))), 0)  # a power of two keeps Sobol's balance
        sobol = qmc.Sobol(d=1, scramble=True, rng=np.random.default_rng(seed))
        unit = sobol.random_base2(power)[:n_draws, 0]
    return np.minimum(np.floor(unit * 2.0**_BITS), 2.0**_BITS - 1).astype(np.int64)


def uniform_points(keys: Tensor, n_draws: int, kind: DrawKind, seed: int) -> Tensor:
    """The points of each row in the open unit interval, (n, R), on the device of ``keys``.

    Parameters
    ----------
    keys : Tensor
        (n,) int64, the identity of each row.
    n_draws : int
        R; even for "antithetic".
    kind : {"random", "antithetic", "halton", "sobol", "mlhs"}
    seed : int

    Examples
    --------
    >>> import torch
    >>> points = uniform_points(torch.tensor([7, 8]), n_draws=4, kind="mlhs", seed=0)
    >>> (points * 4).floor().tolist()  # one point in each quarter
    [[0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0]]
    """
    state = _row_state(keys, seed)[:, None]
    if kind in ("random", "antithetic"):
        n_free = n_draws if kind == "random" else n_draws // 2
        points = _to_unit(_bits(state, torch.arange(n_free, device=keys.device)))
        return points if kind == "random" else torch.cat([points, 1.0 - points], dim=1)
    shift = _bits(state, torch.zeros(1, dtype=torch.int64, device=keys.device))
    if kind == "mlhs":
        number = torch.arange(n_draws, dtype=torch.float64, device=keys.device)
        # The last point may round up to 1, whose normal quantile is infinite.
        return ((number + _to_unit(shift)) / n_draws).clamp_(max=1.0 - 2.0**-53)
    base = torch.as_tensor(_base_bits(kind, n_draws, seed), device=keys.device)
    if kind == "halton":
        return _to_unit((base + shift) & ((1 << _BITS) - 1))
    return _to_unit(base ^ shift)


def normal_draws(keys: Tensor, n_draws: int, kind: DrawKind, seed: int) -> Tensor:
    """Standard normal draws of each row, (n, R)."""
    return torch.special.ndtri(uniform_points(keys, n_draws, kind, seed))
