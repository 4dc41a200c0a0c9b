"""The paper's experiments, run again beside its numbers: an application of the package."""

from .command import ITEMS, replicate
from .paper import paper_numbers

__all__ = ["ITEMS", "paper_numbers", "replicate"]
