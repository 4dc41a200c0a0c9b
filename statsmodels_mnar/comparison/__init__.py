"""Several fits of the same data side by side, and tests between them."""

from .contrasts import exclusion_test, hausman_test, vuong_test
from .plots import plot_coefficients
from .tables import Comparison, compare

__all__ = [
    "Comparison",
    "compare",
    "exclusion_test",
    "hausman_test",
    "plot_coefficients",
    "vuong_test",
]
