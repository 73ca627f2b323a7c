"""R-precision: of the first R items, R being the number of relevant ones, which share is relevant?

    r_precision(query) = (number of relevant items among the first R) / R

Source: Musgrave, Belongie, Lim, "A Metric Learning Reality Check" (2020), section 3.2. It is 1 only when
every relevant item comes before every other one; it does not see in which order they come (MAP@R does).
"""

from torch import Tensor

from shadowmetric.evaluation.hits import Hits


def r_precision(hits: Hits) -> Tensor:
    """Return the R-precision of each query, NaN for lone ones."""
    return hits.mask_lone(hits.among_first_r().sum(1).double() / hits.relevant)
