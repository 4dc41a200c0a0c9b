"""Where the tensors live."""

from __future__ import annotations

import torch


def resolve_device(device: str | torch.device = "auto") -> torch.device:
    """The torch device for a name, checked to hold float64.

    Parameters
    ----------
    device : str or torch.device
        "auto" takes the current CUDA device where there is one and the CPU elsewhere.

    Examples
    --------
    >>> resolve_device("cpu")
    device(type='cpu')
    """
    if isinstance(device, str) and device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"device={device!r} is not a torch device; use 'auto', 'cpu', 'cuda' or 'cuda:1'"
        ) from error
    try:
        torch.zeros(1, dtype=torch.float64, device=resolved).item()  # "meta" holds no numbers
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        raise ValueError(
            f"device={str(resolved)!r} cannot hold float64, which the likelihood needs, or is not "
            f"present on this machine; use device='cpu' ({error})"
        ) from error
    return resolved


def block_rows(
    n_wide: int, device: torch.device, memory_budget: int, *, n_arrays: int = 12, n_more: int = 0
) -> int:
    """Rows of one block whose work arrays hold ``n_wide`` float64 values a row.

    On a CPU a block that stays in cache is faster than one that fills the budget; elsewhere only
    the budget counts.

    Parameters
    ----------
    memory_budget : int
        Bytes.
    n_arrays : int
        Work arrays alive at once: about a dozen in the kernels.
    n_more : int
        Other values a row that are in memory meanwhile.
    """
    budget = memory_budget // (8 * max(n_arrays * n_wide + n_more, 1))
    in_cache = 2**18 // max(n_wide, 1) if device.type == "cpu" else budget
    return max(1, min(budget, max(in_cache, 256)))
