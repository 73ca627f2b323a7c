"""A gallery in a table of PostgreSQL, with pgvector.

    key uuid primary key, path text, label text, digest bytea, row halfvec(dim)

The column is a vector(dim) where pgvector is older than 0.7. Which model made the rows stands as JSON in the table's
comment, so that both are dropped together. Paths and classes are kept as `store_address.to_stored` has them.

Search looks at every row. With ?index=hnsw it asks pgvector's index, but not for a class: that would find too few.
Either way the server proposes rows by its product in float32, and what it proposes is measured again (`proposed.py`),
so that cosines and order are those of files.

Memory: the proposed rows, and a few connections.
"""

import json
import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, LiteralString

import numpy as np

from shadowmetric.app.serving.galleries.file_gallery import check_rows
from shadowmetric.app.serving.indexing.embedding import Embedded
from shadowmetric.app.serving.stores.address import PostgresPlace, from_stored, postgres_place, to_stored
from shadowmetric.app.serving.stores.postgres_connections import Connections
from shadowmetric.app.serving.stores.proposed import Proposed, no_reach, search_store
from shadowmetric.app.serving.stores.store import Known
from shadowmetric.errors import Mistake, Stopped
from shadowmetric.runtime.entries import About, Entry, Hit, about_from, key_of
from shadowmetric.runtime.exact_cosines import SPARE, reach
from shadowmetric.runtime.search import unknown_class_error

if TYPE_CHECKING:
    from psycopg import Connection

MOST_LOOKED_AT = 1000  # hnsw.ef_search goes no further; more neighbors are searched exactly
AT_ONCE = 1000  # keys
OURS = "shadowmetric"
KEY = re.compile(r"[0-9a-f]{32}")

FOUND = """
SELECT obj_description(to_regclass(%s), 'pg_class'), (SELECT atttypid::regtype::text FROM pg_attribute
       WHERE attrelid = to_regclass(%s) AND attname = 'row' AND NOT attisdropped)
WHERE to_regclass(%s) IS NOT NULL"""
EXACT = """
SELECT path, label, "row"::text, -("row"::vector <#> %(query)s::vector) FROM {table} WHERE {some}
ORDER BY ("row"::vector <#> %(query)s::vector) + 0, path COLLATE "C" LIMIT %(limit)s"""
APPROXIMATE = """
SELECT path, label, "row"::text, -("row"::vector <#> %(query)s::vector) FROM {table}
ORDER BY "row" <#> %(query)s::{kind} LIMIT %(limit)s"""
PUT = """
INSERT INTO {table} (key, path, label, digest, "row")
SELECT k, p, l, d, r::vector
FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::bytea[], %s::text[]) AS new (k, p, l, d, r)
ON CONFLICT (key) DO UPDATE
SET path = excluded.path, label = excluded.label, digest = excluded.digest, "row" = excluded."row" """
RELABEL = """
UPDATE {table} AS old SET label = new.l FROM unnest(%s::uuid[], %s::text[]) AS new (k, l) WHERE old.key = new.k"""
HAS_HNSW = """
SELECT 1 FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
WHERE indrelid = to_regclass(%s) AND amname = 'hnsw' AND indisvalid"""


def open_postgres(place: str) -> "PostgresGallery":
    """Return the gallery at an address."""
    gallery = PostgresGallery(postgres_place(place))
    try:
        if gallery.find_about() is None:
            raise Mistake(f"{gallery.shown} is not there; fill it by `shadowmetric index RUN FOLDER --to …`.")
    except BaseException:
        gallery.close()
        raise
    return gallery


class PostgresGallery:
    """The images of a table."""

    def __init__(self, place: PostgresPlace):
        self.place, self.shown = place, place.shown
        self.connections = Connections(place)
        self.known_about: About | None = None
        self.kind = "halfvec"  # of the column

    @property
    def about(self) -> About:
        """Return which model made the rows."""
        assert self.known_about is not None
        return self.known_about

    def ask(self, question: LiteralString, *values: Any, **parts: Any) -> list[tuple[Any, ...]]:
        """Return the lines that answer a question, with the table's name and other parts in their places."""
        return self.connections.run(lambda connection: self.answer(connection, question, values, parts))

    def answer(self, connection: "Connection", question: LiteralString, values: Any, parts: dict) -> list:
        """Ask one question."""
        from psycopg import sql

        name = self.place.table.replace("%", "%%") if values else self.place.table  # psycopg looks for values in names
        composed = sql.SQL(question).format(table=sql.Identifier(name), **parts)
        cursor = connection.execute(composed, values or None)
        return cursor.fetchall() if cursor.description else []

    @property
    def quoted(self) -> str:
        """The table's name, as SQL text has it."""
        from psycopg import sql

        return sql.Identifier(self.place.table).as_string(None)

    def find_about(self) -> About | None:
        """Return which model made the rows that are there; None if there is no table; refuse what others wrote."""
        lines = self.ask(FOUND, self.quoted, self.quoted, self.quoted)
        if not lines:
            return None
        comment, kind = lines[0]
        try:
            about = about_from(json.loads(comment or "")[OURS], self.shown)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, Mistake):
                raise
            raise Mistake(f"{self.shown} is there, but not by shadowmetric; name another by ?table=NAME.") from None
        self.known_about, self.kind = about, (kind or "").rpartition(".")[2]
        return about

    def begin(self, about: About) -> None:
        """Make the table if it is not there, and say whose rows it has."""
        from psycopg import sql

        if self.ask("SELECT to_regtype('vector')") == [(None,)]:
            self.make_extension()
        halves = self.ask("SELECT to_regtype('halfvec')") != [(None,)]
        comment = sql.Literal(json.dumps({OURS: about.plain()}))
        kind = sql.SQL("halfvec" if halves else "vector")

        def make(connection: "Connection") -> None:
            with connection.transaction():
                if not self.answer(connection, FOUND, (self.quoted,) * 3, {}):
                    columns = 'key uuid PRIMARY KEY, path text NOT NULL, label text, digest bytea NOT NULL, "row" '
                    size = sql.Literal(about.dim)
                    making = "CREATE TABLE {table} (" + columns + "{kind}({size}) NOT NULL)"
                    self.answer(connection, making, (), {"kind": kind, "size": size})
                    self.answer(connection, "CREATE INDEX ON {table} (label)", (), {})
                    self.answer(connection, "CREATE INDEX ON {table} (digest)", (), {})
                self.answer(connection, "COMMENT ON TABLE {table} IS {told}", (), {"told": comment})

        self.connections.run(make)
        self.find_about()

    def make_extension(self) -> None:
        """Add pgvector to the database."""
        try:
            self.ask("CREATE EXTENSION IF NOT EXISTS vector")
        except Stopped as error:
            raise Mistake(
                f"the database has no extension vector, and it cannot be added: {str(error).rstrip('.')}; install "
                "pgvector on the server and let its administrator run `CREATE EXTENSION vector`."
            ) from None

    def __len__(self) -> int:
        return self.ask("SELECT count(*) FROM {table}")[0][0]

    def classes(self) -> dict[str, int]:
        """Return how many images each class has."""
        lines = self.ask("SELECT label, count(*) FROM {table} WHERE label IS NOT NULL GROUP BY label")
        return dict(sorted((from_stored(label), count) for label, count in lines))

    def nearest(self, rows: np.ndarray, k: int, label: str | None = None) -> list[list[Hit]]:
        """Return the k most similar images of each row, best first."""
        check_rows(rows, self.about.dim, k)
        if label is not None and not self.ask("SELECT 1 FROM {table} WHERE label = %s LIMIT 1", to_stored(label)):
            raise unknown_class_error(label, list(self.classes()))
        exact = self.place.index is None or label is not None or k + SPARE > MOST_LOOKED_AT
        search = self.exact if exact else self.approximate

        def ask(queries: np.ndarray, limit: int) -> list[list[Proposed]]:
            values = [{"query": text_of(query), "limit": limit} for query in queries]
            return self.connections.run(lambda connection: [search(connection, one, label) for one in values])

        return search_store(rows, k, reach if exact else no_reach, ask)

    def exact(self, connection: "Connection", values: dict[str, Any], label: str | None) -> list[Proposed]:
        """Search with one query among all rows, or those of a class."""
        from psycopg import sql

        some = sql.SQL("true" if label is None else "label = %(label)s")
        named = {} if label is None else {"label": to_stored(label)}
        return [to_candidate(*line) for line in self.answer(connection, EXACT, values | named, {"some": some})]

    def approximate(self, connection: "Connection", values: dict[str, Any], _: str | None) -> list[Proposed]:
        """Search with one query in pgvector's index."""
        from psycopg import sql

        looked_at = str(min(max(2 * values["limit"], 100), MOST_LOOKED_AT))
        with connection.transaction():
            connection.execute("SELECT set_config('hnsw.ef_search', %s, true)", (looked_at,))
            lines = self.answer(connection, APPROXIMATE, values, {"kind": sql.Identifier(self.kind)})
        return [to_candidate(*line) for line in lines]

    def entry(self, key: str) -> Entry | None:
        """Return the image with this key, if there is one."""
        lines = self.ask("SELECT path, label FROM {table} WHERE key = %s::uuid", key) if KEY.fullmatch(key) else []
        return entry_of(*lines[0]) if lines else None

    def row(self, key: str) -> np.ndarray | None:
        """Return its embedding."""
        lines = self.ask('SELECT "row"::text FROM {table} WHERE key = %s::uuid', key) if KEY.fullmatch(key) else []
        return row_of(lines[0][0]) if lines else None

    def look_up(self, keys: list[str]) -> dict[str, Known]:
        """Return what is there of these keys."""
        lines = self.ask("SELECT key, digest, label FROM {table} WHERE key = ANY(%s::uuid[])", keys)
        return {key.hex: Known(digest, None if label is None else from_stored(label)) for key, digest, label in lines}

    def rows_of(self, digests: list[bytes]) -> dict[bytes, np.ndarray]:
        """Return rows of files with these contents."""
        question = 'SELECT DISTINCT ON (digest) digest, "row"::text FROM {table} WHERE digest = ANY(%s::bytea[])'
        return {digest: row_of(text) for digest, text in self.ask(question, digests)}

    def put(self, images: list[Embedded]) -> None:
        """Write rows, over older ones of the same keys, in one transaction."""
        by_key = {key_of(image.listed.path): image for image in images}
        paths = [to_stored(image.listed.path) for image in by_key.values()]
        labels = [encode_label(image.listed.label) for image in by_key.values()]
        digests = [image.digest for image in by_key.values()]
        rows = [text_of(image.row.astype(np.float16)) for image in by_key.values()]
        self.ask(PUT, list(by_key), paths, labels, digests, rows)

    def relabel(self, labels: dict[str, str | None]) -> None:
        """Give images that are there other classes."""
        self.ask(RELABEL, list(labels), [encode_label(label) for label in labels.values()])

    def keys(self) -> Iterator[str]:
        """Yield all keys, in order."""
        after = uuid.UUID(int=0)
        while lines := self.ask("SELECT key FROM {table} WHERE key > %s ORDER BY key LIMIT %s", after, AT_ONCE):
            yield from (key.hex for (key,) in lines)
            after = lines[-1][0]

    def remove(self, keys: list[str]) -> None:
        """Remove rows."""
        self.ask("DELETE FROM {table} WHERE key = ANY(%s::uuid[])", keys)

    def finish(self) -> None:
        """Make the HNSW index if the address asks for one and there is none."""
        from psycopg import sql

        if self.place.index is not None and not self.ask(HAS_HNSW, self.quoted):
            self.ask('CREATE INDEX ON {table} USING hnsw ("row" {by})', by=sql.Identifier(f"{self.kind}_ip_ops"))

    def close(self) -> None:
        """Give back the connections."""
        self.connections.close()


def to_candidate(path: str, label: str | None, row: str, product: float) -> Proposed:
    """Return a line that was found."""
    return Proposed(entry_of(path, label), row_of(row), float(product))


def entry_of(path: str, label: str | None) -> Entry:
    """Return what a line of the table says of an image."""
    path = from_stored(path)
    return Entry(key_of(path), path, None if label is None else from_stored(label))


def encode_label(label: str | None) -> str | None:
    """Return a class as it is stored."""
    return None if label is None else to_stored(label)


def text_of(row: np.ndarray) -> str:
    """Return a row as pgvector reads it."""
    return f"[{','.join(map(repr, row.tolist()))}]"


def row_of(text: str) -> np.ndarray:
    """Return a row that pgvector wrote."""
    return np.array(json.loads(text), np.float32)
