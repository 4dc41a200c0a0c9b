"""Progress bars, for callers who ask for one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def progress_bar(
    show: bool,
    label: str,
    total: int | None = None,
    over: Iterable[Any] | None = None,
    unit: str = "fit",
    **options: Any,
) -> Any:
    """A tqdm bar: an iterator over ``over``, or a context manager with ``update``.

    Examples
    --------
    >>> list(progress_bar(False, "squares", over=(i * i for i in range(3))))
    [0, 1, 4]
    """
    if show:
        from tqdm.auto import tqdm
    else:  # draws nothing; the other may warn when it is imported in a notebook
        from tqdm.std import tqdm
    return tqdm(over, desc=label, total=total, unit=unit, disable=not show, **options)
