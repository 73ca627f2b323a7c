"""The paper's table of large-scale retrieval: Stanford Online Products and In-Shop Clothes.

    python -m paper large-scale --data-root DATA
No machine of ours has these photographs, so nothing was measured; the command, the loaders and the official lists are
tested.

The paper: Recall@1 of 69.94 for Shadow and 68.96 for Triplet on SOP, 72.33 and 69.81 on In-Shop, with plateaus after
10 epochs instead of 20 and 30.
"""

from paper.bed import PRETRAINED, Bed
from paper.beside import tables_of
from paper.studies.standard import RETRIEVAL, TRIPLETS
from paper.study import Study

SOP = Bed("sop", "sop", TRIPLETS, 50, PRETRAINED)
INSHOP = Bed("inshop", "inshop", TRIPLETS, 50, PRETRAINED)

STUDY = Study(
    name="large-scale",
    title="Large-scale retrieval",
    beds=(SOP, INSHOP),
    tables=tables_of("large-scale", {bed.name: RETRIEVAL for bed in (SOP, INSHOP)}),
)
