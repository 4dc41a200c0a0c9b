"""Several fits of the same data side by side, and tests between them."""

from .compare import Comparison, compare, plot_coefficients
from .contrasts import exclusion_test, hausman_test, vuong_test

__all__ = [
    "Comparison",
    "compare",
    "exclusion_test",
    "hausman_test",
    "plot_coefficients",
    "vuong_test",
]
