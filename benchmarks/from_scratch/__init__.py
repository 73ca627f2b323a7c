"""A small embedder from scratch, beside plain scripts, at equal time of the processor.

`beds` are the images, `trial` is one cell, `plain_script` the contender that anybody writes in an hour, `networks` what
was tried for `small_cnn`. `sweep` is the list of cells of a round, each written as soon as it is finished; the rows of
all rounds are in `benchmarks/records/from-scratch.csv`.
"""
