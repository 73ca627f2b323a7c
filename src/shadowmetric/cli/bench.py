"""`shadowmetric bench`: the losses beside the peers; `bench evaluation`: the evaluation beside them; `bench training`:
`train` beside a bare loop; `bench step`: a training step in micro-batches beside plain ones;
`bench memory`: bytes as promised beside bytes as taken; `bench scale`: a step on many ranks, computed and measured;
`bench search`: searching an index beside plain faiss; `bench paths`: kernels, host waits and time of a step."""

from cyclopts import App

from shadowmetric.cli.bench_evaluation import evaluation
from shadowmetric.cli.bench_losses import losses
from shadowmetric.cli.bench_memory import memory
from shadowmetric.cli.bench_paths import paths
from shadowmetric.cli.bench_scale import scale
from shadowmetric.cli.bench_search import search
from shadowmetric.cli.bench_step import step
from shadowmetric.cli.bench_training import training

app = App(name="bench")
app.default(losses)
app.command(evaluation)
app.command(memory)
app.command(training)
app.command(step)
app.command(scale)
app.command(search)
app.command(paths)
