"""Checks of arguments that many functions share."""

from __future__ import annotations


def check_alpha(alpha: float) -> None:
    """Refuse what is no level of a test or interval."""
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha={alpha!r} must lie between 0 and 1")
