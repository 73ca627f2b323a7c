"""The paper's ablation over backbones on CIFAR-10: does the gain depend on the network?

    python -m paper architectures --scale small --data-root DATA
24 trainings took nine minutes on two cores.

The paper: Triplet 73.46 and Shadow 82.82 for ResNet-18, 71.23 and 80.15 for VGG-16, 68.91 and 77.44 for a "Custom CNN"
that it does not describe (ours is small_cnn): 8.5 to 9.4 points more with any of them. Its table of standard benchmarks
has 97.02 and 97.31 for the same data with Inception; the two were not trained alike, and the text does not say how.
Ours: 60 batches of 16-pixel images, all that two cores had time for, teach none of the four networks anything: none
is above its untrained self. Shadow and Triplet differ by less than the seeds do, and the claim stays untested here.
"""

from paper.bed import SCRATCH, Bed
from paper.beside import beside_paper
from paper.studies.standard import TWO
from paper.study import Study

SMALL = SCRATCH | {"size": 16, "resize": 16, "most_per_class": 200, "epochs": 2, "batches": 30}
NETWORKS = ("resnet18", "vgg16", "googlenet", "small_cnn")
BEDS = tuple(
    Bed(f"cifar10-{name}", "cifar10", TWO, 100, SMALL, {"backbone": name}, controls=False) for name in NETWORKS
)

STUDY = Study(
    name="architectures",
    title="Architectures",
    beds=BEDS,
    tables=lambda records: [
        beside_paper(
            records[bed.name],
            "architectures",
            ("recall_at_1", "accuracy"),
            dataset=str(bed.change["backbone"]),
            called={"recall_at_1": "retrieval_accuracy"},
        )
        for bed in BEDS
        if bed.name in records
    ],
)
