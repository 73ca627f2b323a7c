"""docs/claims.md, a reader's page of one screen, and docs/claims-evidence.md, all that it rests on.

    make results        (python -m tools.pages.results)

A claim is a row: what the paper says, the verdict, the number that decides, a link. Its evidence is a section of the
second page, followed by every difference with its correction, and by the long tables. Memory: the records.
"""

from collections import Counter
from collections.abc import Mapping

from paper.beside import PER_CENT, TITLES, format_difference
from paper.catalogue import STUDIES
from paper.claims.claims import CLAIMS
from paper.claims.judges import FAILS, HOLDS, ONLY_IF, UNTESTABLE, Verdict
from paper.heads.comparisons import Stores, answer, free_comparisons, protocol_records
from paper.heads.tables import BOUND, format_equivalence, tables
from paper.record import Record
from shadowmetric.app.compare.seed_intervals import interval
from shadowmetric.app.compare.seed_tests import equivalence, holm_intervals
from shadowmetric.app.report.tables import Table, as_markdown, plain

EVIDENCE = "claims-evidence.md"
Records = Mapping[str, Record]
OPENING = f"""\
# The paper, claim by claim

Each verdict follows from a record, and each link leads to its evidence, with the command. Our trainings are small: \
they cannot confirm or refute a score of the paper, but they show whether one loss differs from another when all else \
is equal, which is what the claims are about. Numbers are Shadow's less the other's, in points unless words say more, \
with the 95 % interval over seeds; [{EVIDENCE}]({EVIDENCE}) corrects them for their number. *Not testable here* names \
what is missing: photographs that cannot be had here, or trainings.
"""
EVIDENCE_OPENING = """\
# The evidence behind the verdicts

Made by `make results` from the records in [`paper/records/`](../paper/records): every run with its figures, the \
command, the commit and the machine. What the paper states is *quoted*, what we did is *measured*. Heads are trained \
on cached features, in seconds; the other trainings are of scale small, with fewer and smaller images and fewer steps, \
as each caption says. `--scale paper` is the literal protocol; nobody here has run it.

One thing needs no training. On unit rows, which the paper prescribes, Shadow at margin m is half the squared Triplet \
at margin 2m, and under semi-hard mining both hinges are always active: the gradients differ by the factor 2, which \
Adam ignores but for its weight decay. So every table has the control *Triplet, margin 2m, same triplets*.

A gain *holds* if its interval lies above 0 and reaches what the paper states; it *does not hold* if the interval ends \
below that and does not lie above 0. An interval that holds both 0 and the stated gain decides nothing, and neither \
does a training that is not above every floor that was measured, untrained embedder, raw pixels and pooled features: \
both are *not testable here*. Records whose settings do not name what miners compare were made before a margin had one \
unit, as version 0.1.0 at the commit of their caption; `--recipe paper`, which they used, mines now as it did then.
"""


def claims_page(records: Records, stores: Stores) -> str:
    """Return docs/claims.md."""
    verdicts = verdicts_of(records, stores)
    lines = [OPENING, summary(verdicts), "", f"**The one open question.** {answer(free_comparisons(stores))} "]
    lines[-1] += f"[Setting by setting]({EVIDENCE}#shadow-on-rows-of-free-length)."
    lines += ["", "| | the paper says | verdict | the number that decides | |", "|---|---|---|---|---|"]
    for number, (claim, verdict) in enumerate(zip(CLAIMS, verdicts, strict=True), start=1):
        cells = (claim.words, f"**{verdict.verdict}**", verdict.number)
        lines.append(f"| {number} | {' | '.join(map(plain, cells))} | [evidence]({EVIDENCE}#claim-{number}) |")
    return "\n".join(lines) + "\n"


def evidence_page(records: Records, stores: Stores) -> str:
    """Return docs/claims-evidence.md."""
    verdicts = verdicts_of(records, stores)
    lines = [EVIDENCE_OPENING]
    for number, (claim, verdict) in enumerate(zip(CLAIMS, verdicts, strict=True), start=1):
        command = f" Command: {verdict.command}." if verdict.command else ""
        words = f"*{claim.words}* ({claim.where}.) **{verdict.verdict.capitalize()}.** {verdict.evidence}{command}"
        lines.append(f"## Claim {number}\n\n{words}\n")
    lines.append(f"## Every difference\n\n{as_markdown(differences_table(verdicts))}")
    lines += [f"## {table.title}\n\n{as_markdown(table)}" for table in tables(stores, free_comparisons(stores))]
    for study in STUDIES.values():
        own_records = {name: records[name] for name in study.record_names() if name in records}
        some = [table for table in study.tables(own_records) if table.rows] if own_records else []
        if some:
            lines.append(f"## {study.title}\n")
            if study.image is not None and study.name in records:
                lines.append(f"![{study.title}](images/{study.name}.svg)\n")
            lines += [f"### {table.title}\n\n{as_markdown(table)}" for table in some]
    return "\n".join(lines)


def verdicts_of(records: Records, stores: Stores) -> list[Verdict]:
    """Return what became of each claim; where no heads are trained yet, a whole network's trainings stand in."""
    known = {**{f"head-{name}": record for name, record in records.items()}, **records, **protocol_records(stores)}
    return [claim.judge(known) for claim in CLAIMS]


def summary(verdicts: list[Verdict]) -> str:
    """Return how many claims hold, in a sentence."""
    kinds = Counter(
        next(kind for kind in (ONLY_IF, HOLDS, FAILS, UNTESTABLE) if one.verdict.startswith(kind)) for one in verdicts
    )
    return (
        f"Of {len(verdicts)} claims {kinds[HOLDS]} hold, {kinds[ONLY_IF]} hold under a condition, {kinds[FAILS]} do "
        f"not hold, and {kinds[UNTESTABLE]} cannot be tested here."
    )


def differences_table(verdicts: list[Verdict]) -> Table:
    """Return every difference that a verdict uses: plain, corrected for their number, and whether it is next to 0."""
    known = [
        (number, bed, verdict.figure, list(values))
        for number, verdict in enumerate(verdicts, start=1)
        for bed, values in verdict.differences.items()
    ]
    rows = []
    for (number, bed, figure, values), corrected in zip(known, holm_intervals([one[3] for one in known]), strict=True):
        name = f"{TITLES.get(bed.removeprefix('head-'), bed)}{', head' if bed.startswith('head-') else ''}"
        near = format_equivalence(equivalence(values, BOUND)) if figure in PER_CENT else ""
        shown = (format_difference(one, figure) for one in (interval(values), corrected))
        where = f"{name}, {figure.replace('_', ' ')}"
        rows.append((f"[{number}](#claim-{number})", where, str(len(values)), *shown, near))
    headings = ("claim", "where", "seeds", "Shadow less the other (95 %)", "corrected (Holm)", "within ± 0.5 points")
    words = (
        f"Corrected for all {len(rows)} rows: of the statements that one lies above or below 0, none is mistaken, with "
        "95 % probability. The last column is two one-sided tests at 5 %, with the interval that decides them."
    )
    return Table("", words, headings, tuple(rows), ("",) * len(rows))
