"""A few connections to PostgreSQL that threads borrow, each for as long as a question takes.

One that broke while nobody used it, for the server was restarted, is replaced and the question asked again.

Memory: MOST_CONNECTIONS connections.
"""

import importlib.util
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from shadowmetric.app.serving.stores.address import POSTGRES_EXAMPLE, PostgresPlace, one_line, unreadable
from shadowmetric.errors import Mistake, Stopped

if TYPE_CHECKING:
    from psycopg import Connection

MOST_CONNECTIONS = 4
PATIENCE = 10  # seconds until a server must have answered, unless the address has a connect_timeout
Answer = TypeVar("Answer")


class Connections:
    """A few connections that threads borrow."""

    def __init__(self, place: PostgresPlace):
        if importlib.util.find_spec("psycopg") is None:
            raise Mistake("psycopg is not installed; run `pip install 'shadowmetric[postgres]'`.")
        self.place = place
        self.settings = settings_of(place)
        self.places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.idle: list[Connection] = []
        self.idle.append(self.connect(Mistake))

    def connect(self, refusal: type[Exception]) -> "Connection":
        """Return a new connection."""
        import psycopg

        try:
            return psycopg.connect(**self.settings, autocommit=True, prepare_threshold=None)  # for poolers' sake
        except psycopg.Error as error:
            remedy = "look at the address, the user and the password, and whether the server runs"
            raise refusal(f"{self.place.shown} cannot be reached ({one_line(error)}); {remedy}.") from None

    def run(self, work: Callable[["Connection"], Answer]) -> Answer:
        """Return what `work` makes of a connection; it must do no harm twice."""
        import psycopg

        with self.places:
            while True:
                try:
                    connection, waited = self.idle.pop(), True
                except IndexError:
                    connection, waited = self.connect(Stopped), False
                try:
                    answer = work(connection)
                except psycopg.Error as error:
                    if connection.closed and waited:  # the server went away while nobody asked
                        continue
                    raise Stopped(f"{self.place.shown} refused: {one_line(error)}.") from None
                except BaseException:
                    connection.close()  # whatever it was doing
                    raise
                finally:
                    if not connection.closed:
                        self.idle.append(connection)
                return answer

    def close(self) -> None:
        """Close all that nobody has borrowed."""
        while self.idle:
            self.idle.pop().close()


def settings_of(place: PostgresPlace) -> dict[str, Any]:
    """Return an address as libpq's settings."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        return {"connect_timeout": PATIENCE} | conninfo_to_dict(place.address) | {"client_encoding": "utf8"}
    except psycopg.Error:  # its text may show the password
        raise unreadable(place.address, POSTGRES_EXAMPLE) from None
