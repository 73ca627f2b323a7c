"""A small network for images of 8 to 64 pixels, fast on a CPU.

    stage(x) = relu(batch_norm(max_pool(conv3x3(x))))    the pool of 2 × 2 while the map is wider than 4, then without
    rows     = mean over places of stage_4(stage_3(stage_2(stage_1(x))))

    stage        1    2    3     4
    channels     16   32   64    128
    64 pixels    32   16   8     4
    28 pixels    14   7    4     4
     8 pixels    4    4    4     4

97,000 parameters. Pools instead of strides: every place is looked at before the largest answer of four is kept, and
that is worth more than the time it takes. The pool comes before the normalization, which then has a quarter of the
numbers to do; the last place of an odd side has a pool of its own. Tried in its place: group normalization and none,
which learn more slowly, and twice the channels, which take too long (LOG.md has the figures).
"""

from itertools import pairwise

from torch import Tensor, nn

CHANNELS = (16, 32, 64, 128)
NARROWEST = 4  # places, that a stage does not halve


class SmallCNN(nn.Module):
    """Four stages and an average: (batch, channels, height, width) -> (batch, 128)."""

    def __init__(self, channels: int = 3, size: int = 28):
        super().__init__()
        stages = []
        for narrow, wide in pairwise((channels, *CHANNELS)):
            stages.append(stage(narrow, wide, halved=size > NARROWEST))
            size = -(-size // 2) if size > NARROWEST else size
        self.stages = nn.Sequential(*stages)

    def forward(self, images: Tensor) -> Tensor:
        """Return one row for each image."""
        return self.stages(images).mean(dim=(2, 3))


def stage(channels: int, wider: int, *, halved: bool) -> nn.Sequential:
    """Return relu(batch_norm(pool(conv(x))))."""
    conv = nn.Conv2d(channels, wider, 3, padding=1, bias=False)  # batch_norm has the bias
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    pool = nn.MaxPool2d(2, ceil_mode=True) if halved else nn.Identity()
    return nn.Sequential(conv, pool, nn.BatchNorm2d(wider), nn.ReLU(inplace=True))
