"""Functions and inputs of test_common_behaviours.py: what compilers of PyTorch programs often get
wrong, by subject. A row is a name, a function and its inputs."""

from .arithmetic import NUMBERS, REDUCTIONS
from .images import IMAGES
from .memory import PLACES, SIZES, WRITES
from .movement import INDEXING, VIEWS

SUBJECTS = {
    "indexing": INDEXING, "views": VIEWS, "numbers": NUMBERS, "reductions": REDUCTIONS,
    "images": IMAGES, "writes": WRITES, "places": PLACES, "sizes": SIZES,
}  # fmt: skip
