"""`shadowmetric bench`: the losses beside the peers; `shadowmetric bench evaluation`: the evaluation beside them."""

from cyclopts import App

from shadowmetric.cli.bench_evaluation import evaluation
from shadowmetric.cli.bench_losses import losses

bench = App(name="bench")
bench.default(losses)
bench.command(evaluation)
