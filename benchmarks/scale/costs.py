"""What a training step costs on R ranks, on paper: bytes, operations, traffic, seconds, and where the gather overtakes.

A rank has n = S / R rows of a batch of S, compares them with all S, and D numbers make a row. A number has b bytes.

    embedder     4 F n operations: forward, forward again with a graph, backward (2 F); 3 F n without micro-batches
    loss         mined: 2 (D + 1) n (S + band) multiply the blocks; 8 D n (K - 1) at most go back to the triplets' rows
                 whole rows: 8 D n S: the product, once more in backward, and one for the gradient of either side
    passes       bytes of blocks read and written beside the product: mined, 4 n S (1 + 3 (K - 1))
    traffic      received: rows (R - 1) n D b, their gradient as much; labels 8 (R - 1) n; the gradient of W weights,
                 2 (R - 1) / R W b, and running statistics
    bytes        2 n D b own rows and gradient, and the larger of a micro-batch and of the loss with the gathered rows

One process compares its batch with itself and needs half of the product; with ranks each half is somebody else's, so
that two ranks multiply as much each as one did alone. Seconds are sums: nothing is assumed to overlap.

Where the gather overtakes. It takes (R - 1) (q / R + 2 L) seconds, q = 2 S D b / link, L the latency of a hop. What it
is measured against takes a / R seconds: loss, a = S^2 c with c seconds a pair; embedder, a = 4 F S / speed. So

    (R - 1) (q + 2 L R) = a         a quadratic equation; without latency  R = 1 + a / q:

    loss         R = 1 + c link S / (2 D b)            n = 2 D b / (c link) rows on each rank, whatever S and R are
    embedder     R = 1 + 2 F link / (D b speed)        whatever S is
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from shadowmetric.losses import MultiSimilarityLoss, ShadowLoss
from shadowmetric.mining.nearest import BAND_SIDE, FEW_PARTNERS
from shadowmetric.ops.memory import Sizes
from shadowmetric.ops.similarity_blocks import HALVED, LONGEST_SIDE, SCRATCH_BYTES

LEAST_SCRATCH = 2**20
NUMBER = 4  # bytes: rows and their gradients are float32, also beside an embedder in half precision
LABEL = 8
ROW_PASSES = 20.0  # over each block by a loss of whole rows, forward and backward: about 8 temporaries, 2 products back
STATES = 2  # numbers that Adam keeps for each weight
FIRST_BUCKET, BUCKET = 2**20, 25 * 2**20  # bytes of gradients that DistributedDataParallel sends at once
SMALL_COLLECTIVES = 2  # how many rows each rank has; the sums
KINDS = ("mined", "rows")
LARGE = 10**8  # rows, beside which what grows with rows alone is nothing


@dataclass(frozen=True)
class Network:
    """An embedder, and what one image of it costs."""

    name: str
    flops: float  # of one image, forward; a multiplication and an addition are two
    kept_bytes: float  # that one more image adds to the peak of a pass
    weights: int
    pixel_bytes: float  # of one image as it waits in the batch
    step_bytes: float = 0.0  # of a step whatever its size, besides gradients
    buffer_bytes: float = 0.0  # running statistics, which rank 0 sends to the others


@dataclass(frozen=True)
class Machine:
    """How fast ranks compute and hear from one another, in seconds and bytes."""

    name: str
    embedder: float  # operations a second
    product: float  # operations a second in the loss's product
    link: float  # bytes that a rank receives in a second
    latency: float  # seconds from a rank to the next
    memory: float = math.inf
    passes: float = math.inf  # bytes a second of reading and writing blocks
    cores: float = math.inf  # that ranks share
    together: float = 1.0  # how much slower a core is while another one computes too
    call: float = 0.0  # seconds of a loss, whatever its size
    update: float = 0.0  # seconds of the optimizer
    scatter: int = 1  # how often reduce-scatter sends what it must; gloo's takes the bytes of an all-reduce, which is 2


@dataclass(frozen=True)
class Step:
    """A training step of a logical batch on so many ranks. micro_batch None: embedded at once."""

    batch: int
    dim: int
    ranks: int = 1
    micro_batch: int | None = 64
    per_class: int = 4
    kind: str = "mined"
    scratch_bytes: int = SCRATCH_BYTES

    @property
    def rows(self) -> int:
        """Return the rows of the rank that has most."""
        return -(-self.batch // self.ranks)

    @property
    def positives(self) -> int:
        """Return the positive pairs of a rank's anchors."""
        return self.rows * (min(self.per_class, self.batch) - 1)


class Memory(NamedTuple):
    """Bytes of a rank: what waits between steps, and what a step adds in its two phases."""

    held: float
    embedding: float
    loss: float

    @property
    def extra(self) -> float:
        """Return what a step adds at its peak."""
        return max(self.embedding, self.loss)

    @property
    def peak(self) -> float:
        """Return the most that is held at once."""
        return self.held + self.extra


class Traffic(NamedTuple):
    """Bytes that a rank receives in a step."""

    rows: float
    gradient: float
    labels: float
    small: float
    weights: float
    buffers: float

    @property
    def gather(self) -> float:
        """Return what the loss costs: rows there and their gradient back."""
        return self.rows + self.gradient


class Seconds(NamedTuple):
    """The parts of a step, one after another."""

    embedder: float
    loss: float
    gather: float
    weights: float
    small: float
    update: float

    @property
    def ring(self) -> float:
        """Return the step's seconds if blocks of rows went round a ring while the last ones are compared."""
        return sum(self) - min(self.loss, self.gather)


def embedder_flops(network: Network, step: Step) -> float:
    """Return the embedder's operations on a rank."""
    return (3 if step.micro_batch is None else 4) * network.flops * step.rows


def blocks_made(step: Step) -> float:
    """Return which part of a rank's product is made: of a batch against itself, the blocks of the upper triangle.

    Large squares on the diagonal are made without a quarter.
    """
    if step.ranks > 1 or step.kind == "rows":
        return 1.0
    side = -(-step.batch // LONGEST_SIDE)
    return 0.5 + (0.25 if step.batch >= HALVED * side else 0.5) / side


def product_flops(step: Step) -> float:
    """Return the operations of a loss's products over pairs on a rank, forward and backward."""
    pairs = step.rows * step.batch
    if step.kind == "rows":
        return 8.0 * step.dim * pairs
    band = min(BAND_SIDE, step.batch) if step.per_class - 1 > FEW_PARTNERS else 0
    return 2.0 * step.dim * (blocks_made(step) * pairs + step.rows * band)


def backward_flops(step: Step) -> float:
    """Return what mined triplets cost in backward, at most: two pairs each, either side of a pair."""
    return 8.0 * step.dim * step.positives if step.kind == "mined" else 0.0


def pass_bytes(step: Step) -> float:
    """Return the bytes of blocks that a loss reads and writes beside the product; of whole rows, roughly."""
    passes = ROW_PASSES if step.kind == "rows" else blocks_made(step) + 3 * (step.per_class - 1)
    return NUMBER * passes * step.rows * step.batch


def traffic(network: Network, step: Step) -> Traffic:
    """Return what a rank receives. Every rank sends as many rows as the one that has most."""
    others, share = step.ranks - 1, (step.ranks - 1) / step.ranks
    rows = float(others * step.rows * step.dim * NUMBER)
    labels, small = float(others * step.rows * LABEL), others * LABEL + 2 * share * 2 * NUMBER
    buffers = network.buffer_bytes if others else 0.0
    return Traffic(rows, rows, labels, small, 2 * share * network.weights * NUMBER, buffers)


def buckets(network: Network) -> int:
    """Return in how many parts DistributedDataParallel sends gradients, about."""
    return 1 + math.ceil(max(network.weights * NUMBER - FIRST_BUCKET, 0) / BUCKET)


def collectives(network: Network, step: Step) -> int:
    """Return how often ranks meet in a step: rows, gradient, labels, the small ones, weights, statistics."""
    return 3 + SMALL_COLLECTIVES + buckets(network) + (network.buffer_bytes > 0) if step.ranks > 1 else 0


def memory(network: Network, step: Step) -> Memory:
    """Return the bytes of a rank."""
    own, everyone = (count * step.dim * NUMBER for count in (step.rows, step.batch))
    weights, several = network.weights * NUMBER, step.ranks > 1
    held = (1 + STATES + several) * weights + step.rows * network.pixel_bytes
    images = step.rows if step.micro_batch is None else min(step.micro_batch, step.rows)
    embedding = 2 * own + weights + network.step_bytes + network.kept_bytes * images
    gathered = several * everyone
    return Memory(held, embedding, own + gathered + max(gathered, loss_bytes(step)))


def loss_bytes(step: Step) -> float:
    """Return what a loss promises to need, gradients included; of its scratch, no more than its blocks can fill."""
    temporaries = 0.5 if step.kind == "mined" else 8.0
    rows, columns = (min(count, LONGEST_SIDE) for count in (step.rows, step.batch))
    sides = 3 * (step.rows + step.batch) * (step.dim + 1)  # rows of unit length in class order, and one gather
    scratch = min(step.scratch_bytes, int(NUMBER * ((1 + temporaries) * rows * columns + sides)))
    loss = (ShadowLoss if step.kind == "mined" else MultiSimilarityLoss)(scratch_bytes=max(scratch, LEAST_SCRATCH))
    sizes = Sizes(step.rows, step.dim, step.positives, references=step.batch)
    return float(loss.memory(references=step.ranks > 1).peak(sizes))


def loss_seconds(machine: Machine, step: Step) -> float:
    """Return the seconds of a loss on a rank that has a core to itself."""
    flops = product_flops(step) + backward_flops(step)
    return machine.call + flops / machine.product + pass_bytes(step) / machine.passes


def seconds(machine: Machine, network: Network, step: Step) -> Seconds:
    """Return the seconds of a step's parts, none of which overlap."""
    slower = max(1.0, step.ranks / machine.cores) * (machine.together if step.ranks > 1 else 1.0)
    embedder = slower * embedder_flops(network, step) / machine.embedder
    loss, update = slower * loss_seconds(machine, step), slower * machine.update
    if step.ranks == 1:
        return Seconds(embedder, loss, 0.0, 0.0, 0.0, update)
    sent, hops, tree = traffic(network, step), step.ranks - 1, 2 * math.ceil(math.log2(step.ranks))
    gather = 2 * hops * machine.latency + (sent.rows + machine.scatter * sent.gradient) / machine.link
    weights = buckets(network) * tree * machine.latency + sent.weights / machine.link
    small = (2 * hops + 2 * tree) * machine.latency + (sent.labels + sent.small + sent.buffers) / machine.link
    return Seconds(embedder, loss, gather, weights, small, update)


class Crossings(NamedTuple):
    """How many ranks it takes for the gather to last longer than what each of them computes."""

    loss: float
    embedder: float
    both: float


def crossings(machine: Machine, network: Network, step: Step) -> Crossings:
    """Return where the gather of a batch overtakes, whatever `step.ranks` is. A core for each rank is assumed."""
    many = replace(step, ranks=2)  # what ranks do is the same for any number of them, and shared
    shares = step.batch / many.rows
    loss = shares * (loss_seconds(machine, many) - machine.call)
    embedder = shares * embedder_flops(network, many) / machine.embedder
    sent = (1 + machine.scatter) * step.batch * step.dim * NUMBER / machine.link
    return Crossings(*(find_crossing(work, sent, machine.latency) for work in (loss, embedder, loss + embedder)))


def find_crossing(work: float, sent: float, latency: float) -> float:
    """Return the R with (R - 1) (sent + 2 latency R) = work."""
    difference = sent - 2 * latency
    return 2 * (sent + work) / (difference + math.sqrt(difference**2 + 8 * latency * (sent + work)))


def rows_where_overtaken(machine: Machine, step: Step) -> float:
    """Return the rows on each rank below which the gather outlasts the loss, in a large batch and without latency."""
    large = replace(step, batch=LARGE, ranks=2)
    pair = (loss_seconds(machine, large) - machine.call) / (large.rows * large.batch)
    return (1 + machine.scatter) * step.dim * NUMBER / (machine.link * pair)


def row(machine: Machine, network: Network, step: Step) -> dict[str, float | int | str]:
    """Return everything that the model says of a step, by name."""
    parts, bytes_, sent = seconds(machine, network, step), memory(network, step), traffic(network, step)
    return {
        "machine": machine.name,
        "network": network.name,
        "loss": step.kind,
        "batch": step.batch,
        "dim": step.dim,
        "ranks": step.ranks,
        "rows": step.rows,
        "held_bytes": bytes_.held,
        "extra_bytes": bytes_.extra,
        "embedder_flops": embedder_flops(network, step),
        "loss_flops": product_flops(step) + backward_flops(step),
        "gather_bytes": sent.gather,
        "received_bytes": sum(sent),
        "loopback_bytes": sum(sent) + (machine.scatter - 1) * sent.gradient,
        "collectives": collectives(network, step),
        **{f"{name}_seconds": value for name, value in parts._asdict().items()},
        "core_seconds": (parts.embedder + parts.loss + parts.update) / max(1.0, step.ranks / machine.cores),
        "seconds": sum(parts),
        "ring_seconds": parts.ring,
    }
