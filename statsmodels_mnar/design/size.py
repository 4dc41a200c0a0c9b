"""The size of a design, known before it is built."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from statsmodels_mnar.errors import DesignError, listing

_COPIES = 3  # of a design while the formula engine makes it

# Where Linux says how much memory a container may have and has.
_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def check_size(
    rhs: str, terms: Iterable[tuple[str, ...]], levels: Mapping[str, int], n_rows: int
) -> None:
    """Refuse a design that memory cannot hold.

    Parameters
    ----------
    rhs : str
        The right-hand side, for the message.
    terms : iterable of tuple of str
        The codes of each term's factors.
    levels : mapping
        Levels of the factors that have any.
    """
    columns = 0
    for term in terms:
        width = 1
        for code in term:
            width *= levels.get(code, 1)
        columns += width
    check_columns(rhs, columns, n_rows, levels)


def check_columns(rhs: str, columns: int, n_rows: int, levels: Mapping[str, int]) -> None:
    """Refuse so many columns and rows, and name the factors with the most levels."""
    size = 8 * columns * n_rows
    free = memory_at_hand()
    if free is None or _COPIES * size <= free:
        return
    most = sorted(levels.items(), key=lambda item: -item[1])[:3]
    causes = listing(f"{code} has {count:,} levels" for code, count in most)
    raise DesignError(
        f"the design of {rhs!r} would have about {columns:,} columns for {n_rows:,} rows. That is "
        f"{size / 1e9:.3g} GB, and {_COPIES} times as much while it is built, but "
        f"{free / 1e9:.3g} GB of memory are free{'; ' * bool(causes)}{causes}. Merge rare levels, "
        "or use a number in their place, such as the size of each level's group."
    )


def memory_at_hand() -> int | None:
    """Bytes that this process may still take; None where the system does not say."""
    found = []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(1024 * int(line.split()[1]))
    except (OSError, ValueError):
        pass
    for limit, used in _CGROUPS:
        try:
            found.append(int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):  # not there, or "max"
            continue
    if not found and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(found, default=None)
