"""Damage to every file that a command reads: thousands of cases, each a sentence or the answer that it was.

`damage` changes bytes; `originals` makes whole files; `formats` says how each is read, and by which plain reader it is
judged; `trial` reads a damaged one as a command would and says what came of it; `worker` does so for one format in a
process of its own, which a crash ends alone; `command` is `python -m benchmarks fuzz`.
"""
