"""`python -m benchmarks losses`: the losses beside the peers; `python -m benchmarks evaluation`: the evaluation beside them; `python -m benchmarks training`:
`train` beside a bare loop; `python -m benchmarks step`: a training step in micro-batches beside plain ones;
`python -m benchmarks memory`: bytes as promised beside bytes as taken; `python -m benchmarks scale`: a step on many ranks, computed and measured;
`python -m benchmarks search`: searching an index beside plain faiss; `python -m benchmarks paths`: kernels, host waits and time of a step."""

from cyclopts import App

from benchmarks.evaluation.command import evaluation
from benchmarks.losses.command import losses
from benchmarks.memory.command import memory
from benchmarks.paths.command import paths
from benchmarks.scale.command import scale
from benchmarks.search.command import search
from benchmarks.step.command import step
from benchmarks.training.command import training

app = App(name="bench")
app.default(losses)
app.command(evaluation)
app.command(memory)
app.command(training)
app.command(step)
app.command(scale)
app.command(search)
app.command(paths)
