"""Addresses of vector stores, and strings as stores keep them.

    qdrant://[KEY@]HOST[:6333]/COLLECTION              a server, by http; qdrants:// by https
    qdrant:///FOLDER/COLLECTION                        no host: a folder of the client's local mode, absolute
    qdrant://./FOLDER/COLLECTION                       the same below the working directory, and qdrant://../… above
    postgresql://USER:PASSWORD@HOST:PORT/DATABASE      everything as libpq has it, hosts and options too
        ?table=NAME                                    but this one is ours: the table, else shadowmetric
    …?index=hnsw                                       search by an HNSW index instead of looking at every row

What is special in an address is percent-encoded, as in every address. A server's KEY may also stand in the environment
variable QDRANT_API_KEY; that of the address goes before it. Refusals never show a key or a password: of an address with
a secret they show what comes after it, and of one that cannot be read nothing but its beginning.

Memory: none to speak of.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from shadowmetric.errors import Mistake

TABLE = "shadowmetric"
INDEXES = ("hnsw",)
LONGEST_TABLE = 63  # bytes; PostgreSQL cuts longer names, and two would become one
NEVER_IN_COLLECTIONS = re.compile(r'[<>:"/\\|?*\x00-\x1f]')  # as Qdrant has it
QDRANT_EXAMPLE = "qdrant://HOST:6333/COLLECTION or qdrant:///FOLDER/COLLECTION"
POSTGRES_EXAMPLE = "postgresql://USER:PASSWORD@HOST:5432/DATABASE?table=NAME"
KEY_VARIABLE = "QDRANT_API_KEY"
SENDABLE = re.compile(r"[!-~]*")  # in a header of http
HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:[0-9]*)?")
LOCAL = re.compile(r"qdrants?://\.{0,2}/")
UNSAFE = re.compile(r"[\\\x00\ud800-\udfff]")
ESCAPED = re.compile(r"\\(\\|u[0-9a-f]{4})")


@dataclass(frozen=True)
class QdrantPlace:
    """A collection of a server, or of a folder."""

    collection: str
    shown: str  # without the key
    url: str | None = None
    key: str | None = field(default=None, repr=False)
    folder: Path | None = None
    index: str | None = None


@dataclass(frozen=True)
class PostgresPlace:
    """A table of a database."""

    table: str
    shown: str  # without the password
    address: str = field(repr=False)  # for libpq
    index: str | None = None


def qdrant_place(place: str) -> QdrantPlace:
    """Return where an address of Qdrant leads."""
    scheme, _, rest = place.partition("://")
    rest, _, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    key, _, host = authority.rpartition("@")
    above, _, last = path.rpartition("/")
    local = authority in ("", ".", "..")
    options = {name: decode_part(place, value, QDRANT_EXAMPLE) for name, value in pairs(query)}
    if not slash or not last or (not local and ("/" in path or "@" in path)) or set(options) - {"index"}:
        raise unreadable(place, QDRANT_EXAMPLE)
    collection = decode_part(place, last, QDRANT_EXAMPLE)
    if NEVER_IN_COLLECTIONS.search(collection) or collection in (".", ".."):
        raise Mistake(f"{collection!r} cannot be the name of a collection; use letters, digits, - and _.")
    index = check_index_kind(options.get("index"))
    if local:
        folder = Path(f"{authority}/{decode_part(place, above, QDRANT_EXAMPLE)}")
        return QdrantPlace(collection, f"collection {collection!r} in {folder}", folder=folder, index=index)
    try:
        port = urlsplit(f"//{host}").port or 6333
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        raise unreadable(place, QDRANT_EXAMPLE) from None
    if not name:
        raise unreadable(place, QDRANT_EXAMPLE)
    name = f"[{name}]" if ":" in name else name
    description = f"collection {collection!r} at {scheme}://{name}:{port}"
    url = f"{'https' if scheme == 'qdrants' else 'http'}://{name}:{port}"
    key = decode_part(place, key, QDRANT_EXAMPLE) or os.environ.get(KEY_VARIABLE, "").strip()
    if not SENDABLE.fullmatch(key):  # the client's refusal would show it
        raise Mistake(
            f"the key for {description} has letters that no key has; look at the address, and at {KEY_VARIABLE}."
        )
    return QdrantPlace(collection, description, url, key or None, None, index)


def postgres_place(place: str) -> PostgresPlace:
    """Return where an address of PostgreSQL leads."""
    scheme, colon, rest = place.partition("://")
    at, slash = rest.find("@"), rest.find("/")
    start = at + 1 if at >= 0 and (slash < 0 or at < slash) else 0  # a secret ends at the first @, as libpq has it
    server, _, query = rest[start:].partition("?")
    hosts = server.partition("/")[0].split(",")
    if (
        not colon or "@" in server or not all(map(HOST.fullmatch, hosts))
    ):  # a password would be taken for a host or a port
        raise unreadable(place, POSTGRES_EXAMPLE)
    parameters = pairs(query)
    ours = {n: decode_part(place, value, POSTGRES_EXAMPLE) for n, value in parameters if n in ("table", "index")}
    rest_of_query = "&".join(f"{name}={value}" for name, value in parameters if name not in ours)
    table = ours.get("table", TABLE)
    if not table or "\0" in table or len(os.fsencode(table)) > LONGEST_TABLE or UNSAFE.sub("", table) != table:
        raise Mistake(
            f"{table[:80]!r} cannot be the name of a table; give 1 to {LONGEST_TABLE} bytes without backslashes."
        )
    address = f"{scheme}://{rest[:start]}{server}{'?' if rest_of_query else ''}{rest_of_query}"
    return PostgresPlace(table, f"table {table!r} at {scheme}://{server}", address, check_index_kind(ours.get("index")))


def pairs(query: str) -> list[tuple[str, str]]:
    """Return the names and values of an address's options, as they stand there."""
    parts = [part.partition("=") for part in query.split("&") if part]
    return [(name, value) for name, _, value in parts]


def check_index_kind(index: str | None) -> str | None:
    """Return the kind of index, if it is one."""
    if index is not None and index not in INDEXES:
        raise Mistake(f"{index[:80]!r} is no kind of index; there is {', '.join(INDEXES)}, or leave it out.")
    return index


def decode_part(place: str, text: str, example: str) -> str:
    """Return a part of an address without percent signs."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise unreadable(place, example) from None


def unreadable(place: str, example: str) -> Mistake:
    """Return the refusal of an address, which may have a secret anywhere."""
    scheme = re.match(r"[a-z]{1,20}://", place)
    excerpt = f"{scheme[0]}…" if scheme else beginning(place)
    return Mistake(
        f"{excerpt} is no address of a store; write {example}, with / @ ? # and % in names and passwords percent-encoded."
    )


def beginning(place: str) -> str:
    """Return what may be shown of something that should be an address: its first word, unless that may be a key."""
    word = re.split(r"[:=@\s]", place, maxsplit=1)[0]
    return "…" if place.startswith(f"{word}@") else f"{word[:20]}…"


def without_secrets(place: str) -> str:
    """Return a place as it may be shown and logged: what comes before an @, and passwords in options, become …."""
    if LOCAL.match(place):
        return place
    return re.sub(r"(?i)([?&][^=&]*password=)[^&]*", r"\1…", re.sub(r"(?s)://.*@", "://…@", place))


def to_stored(text: str) -> str:
    r"""Return text that every store takes: NUL and bytes that are no UTF-8 become \u0000 and \udc80, \ becomes \\."""
    return UNSAFE.sub(lambda found: "\\\\" if found[0] == "\\" else f"\\u{ord(found[0]):04x}", text)


def from_stored(text: str) -> str:
    """Return the text that was stored."""
    return ESCAPED.sub(lambda found: "\\" if found[1] == "\\" else chr(int(found[1][1:], 16)), text)


def one_line(wrong: object) -> str:
    """Return what a store says went wrong in one line."""
    return " ".join(str(wrong).split())[:300].rstrip(".") or type(wrong).__name__
