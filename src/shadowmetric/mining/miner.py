"""What miners share: they check what they are given, and mine in a matrix, in slots or in class order.

All ways give the same triplets: `matrix.py` is the fastest for small batches on a CPU, `nearest.py`, with rows in class
order, for large ones; `slots.py` has shapes that depend on the batch's size alone, for devices that wait for the host,
and for compiled graphs. `ways.choose_way` chooses.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from shadowmetric.mining.checked_batch import CheckedBatch, Mined, as_checked_batch
from shadowmetric.mining.comparison import Comparison, Unit
from shadowmetric.mining.matrix import MatrixSearch, MatrixTriplets
from shadowmetric.mining.slots import Slots, SlotTriplets, arrange_slots, list_triplets
from shadowmetric.mining.ways import choose_way
from shadowmetric.ops.memory import Cost
from shadowmetric.ops.precision import full_precision
from shadowmetric.types import AnyLabels, Place, Triplets


class TripletMiner:
    """A miner. Subclasses say which triplets they choose, `mine_in_slots` and `mine_by_class` the same ones.

    It has a state dict as a module has, so that trainers which save their parts save it too.
    """

    unit: Unit = "squared"
    normalize: bool = True
    generator: torch.Generator | None = None
    debug: bool
    scratch_bytes: int

    @property
    def comparison(self) -> Comparison:
        """Return what is compared."""
        return Comparison(self.unit, self.normalize)

    def mine(self, batch: CheckedBatch, slots: int | None = None) -> Mined:
        """Return the triplets of a checked batch. slots: the most positives that a row has, if that is known."""
        way = choose_way(batch, self)
        if way == "matrix":
            search = MatrixSearch(batch, self.comparison, slots, scratch_bytes=self.scratch_bytes)
            return self.mine_in_matrix(search).to_mined()
        arranged = arrange_slots(batch, slots) if way == "slots" else None
        return self.mine_by_class(batch) if arranged is None else list_triplets(self.mine_in_slots(batch, arranged))

    def mine_in_matrix(self, search: MatrixSearch) -> MatrixTriplets:
        """Return the triplets of a small batch on a CPU."""
        raise NotImplementedError

    def mine_in_slots(self, batch: CheckedBatch, slots: Slots) -> SlotTriplets:
        """Return the triplet of each place, without a read on the host."""
        raise NotImplementedError

    def mine_by_class(self, batch: CheckedBatch) -> Mined:
        """Return the triplets of a checked batch, arranged by class."""
        raise NotImplementedError

    @property
    def fits_slots(self) -> bool:
        """Return whether there is at most one triplet for each positive of a row."""
        return True

    @property
    def fits_matrix(self) -> bool:
        """Return whether it can mine in a matrix."""
        return False

    @property
    def triplet_for_each(self) -> str:
        """Return what there are at most as many triplets of as: a unit of `ops.memory.Bytes`."""
        return "positive"

    def state_dict(self) -> dict[str, Tensor]:
        """Return what the next batch depends on besides its rows: where its generator is, if it has one."""
        return {} if self.generator is None else {"generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on where another miner of the same settings was."""
        if set(state) != set(self.state_dict()):
            raise ValueError(
                f"the state has {', '.join(state) or 'nothing'}, and {self} wants "
                f"{', '.join(self.state_dict()) or 'nothing'}; give a state of a miner with the same settings."
            )
        if self.generator is not None:
            self.generator.set_state(state["generator"].cpu())

    def memory(self, dtype: torch.dtype = torch.float32, *, references: bool = False) -> Cost:
        """Return what mining embeddings of a type takes, as formulas; `kept` is what the triplets take."""
        raise NotImplementedError

    @torch.no_grad()
    def __call__(
        self,
        embeddings: Tensor,
        labels: AnyLabels,
        references: Tensor | None = None,
        reference_labels: AnyLabels | None = None,
        *,
        anchors_at: Place | None = None,
    ) -> Triplets:
        """Return the triplets of a batch, or of a batch against references."""
        batch = as_checked_batch(embeddings, labels, references, reference_labels, anchors_at, debug=self.debug)
        with full_precision(embeddings.device):
            return self.mine(batch).triplets
