"""Connections: how many there may be, and how long each may keep silent. The socket is read here, HTTP by uvicorn.

    waiting     no request is being answered: a header, or the rest of a body that nobody wants, may take
                `header_seconds`; the connection is then closed, with 408 if half a header is there
    uploading   `uploads.py` has the limits of a body
    answering   the server's own time; but who does not read its answer for `seconds` is let go
    closing     what could not be sent within CLOSING_SECONDS is thrown away

At most `most` are open, which is below the limit of descriptors. At the limit one makes room for the next: whichever is
furthest past the short time that every connection has to itself (`protected_until`). So any number of silent or slow
ones keep nobody out; who comes meanwhile waits in the backlog.

asyncio's own loop accepts as many as the backlog has before the first can be counted, and where descriptors end it
writes to the log for each one of the backlog: `Door` accepts one after the other.
"""

import asyncio
import json
import logging
import math
import os
import socket
from collections.abc import Callable

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from shadowmetric.app.serving.server.service import Service
from shadowmetric.app.serving.server.settings import ServeSettings
from shadowmetric.errors import Mistake

BACKLOG = 1024
CLOSING_SECONDS = 5.0
PAUSE_SECONDS = 0.2  # when this machine has no descriptor left, whoever took it
POLL_SECONDS = 0.02  # while there is no room
FIRST_SECONDS = 0.25  # for a first header, before a connection may have to make room
NEXT_SECONDS = 1.0  # for an upload, the next request, or reading an answer
SPARE_DESCRIPTORS = 16  # for files of images, a new index, the network of a store
SPARE_FOR_WORK = 4  # for each request at work
LEAST_CONNECTIONS = 4
REASONS = {400: "Bad Request", 408: "Request Timeout"}
LATE = "The header of the request did not arrive in time; try again."
log = logging.getLogger("shadowmetric.serve")


class Connection(H11Protocol):
    """uvicorn's connection, with a clock."""

    transport: asyncio.Transport
    waiting_since: float
    unread_since: float | None = None  # an answer that nobody reads
    closing_since: float | None = None
    given_up = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin to wait for a header."""
        self.waiting_since = self.loop.time()
        super().connection_made(transport)

    def on_response_complete(self) -> None:
        """Wait for the next header."""
        self.waiting_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Note since when nobody reads."""
        self.unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Somebody reads again."""
        self.unread_since = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, in the words of this API."""
        self.refuse(400, "This is no HTTP request; the connection is closed.")

    @property
    def waits(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    @property
    def protected_until(self) -> float | None:
        """Return when this connection may be closed for another one, or nothing while it is the server's turn."""
        if self.waits:
            return self.waiting_since + (FIRST_SECONDS if self.cycle is None else NEXT_SECONDS)  # pyright: ignore
        if self.unread_since is not None:
            return self.unread_since + NEXT_SECONDS
        return self.waiting_since + NEXT_SECONDS if self.cycle.more_body else None

    def is_late(self, now: float, settings: ServeSettings) -> bool:
        """Close this connection if it has taken too long, and tell whether it has."""
        if self.transport.is_closing():
            self.closing_since = self.closing_since or now
            if now - self.closing_since > CLOSING_SECONDS:
                self.give_up()
            return False
        if self.unread_since is not None and now - self.unread_since > settings.seconds:
            self.give_up()
            return True
        if self.waits and now - self.waiting_since > settings.header_seconds:
            self.refuse_late_header()
            return True
        return False

    def refuse_late_header(self) -> None:
        """Close; half a header is told why."""
        if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            self.refuse(408, LATE)
        else:
            self.transport.close()

    def refuse(self, status: int, sentence: str) -> None:
        """Answer without a request, and close."""
        body = json.dumps({"detail": sentence}).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Connection", "close")]
        try:
            head = h11.Response(status_code=status, headers=headers, reason=REASONS[status].encode())
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # an answer has begun; nothing can be said in it
            self.give_up()
            return
        self.transport.close()

    def give_up(self) -> None:
        """Free the descriptor at once."""
        self.given_up = True
        self.transport.abort()


class Door:
    """Accepts connections while there is room for them, and looks after their time."""

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], Connection],
        state: ServerState,
        most: int,
        service: Service,
    ):
        self.listening, self.make, self.most = listening, make, most
        self.settings, self.metrics = service.settings, service.metrics
        self.connections = state.connections  # uvicorn's: from the first byte to the last
        self.accepting: asyncio.Task[None] | None = None
        self.metrics.connections.set_function(lambda: len(self.connections))

    def open(self) -> None:
        """Begin to accept."""
        self.listening.setblocking(False)
        self.listening.listen(BACKLOG)
        self.accepting = asyncio.create_task(self.accept())

    def close(self) -> None:
        """Accept no more."""
        if self.accepting is not None:
            self.accepting.cancel()

    async def accept(self) -> None:
        """Let one after the other in."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self.listening)
            except ConnectionError:  # gone already
                continue
            except OSError as error:
                log.warning("no connection can be accepted (%s); if it stays so, raise `ulimit -n`.", error.strerror)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            while not self.has_room():
                await asyncio.sleep(POLL_SECONDS)
            try:
                await loop.connect_accepted_socket(self.make, accepted)
            except OSError:
                accepted.close()

    def has_room(self) -> bool:
        """Tell whether one more may come, after another has made room if need be."""
        if len(self.connections) < self.most:
            return True
        kept = [one for one in self.connections if isinstance(one, Connection) and not one.given_up]
        if len(kept) < self.most:
            return True
        log.warning("there are %d connections, the most that may be; silent ones are closed for new ones.", self.most)
        ends = [(end, one) for one in kept if (end := one.protected_until) is not None]
        end, first = min(ends, key=lambda pair: pair[0], default=(math.inf, None))
        if first is None or end > asyncio.get_running_loop().time():
            return False
        first.give_up()
        self.metrics.closed.labels("room").inc()
        return True

    def look(self) -> None:
        """Close the connections that have taken too long."""
        now = asyncio.get_running_loop().time()
        for one in list(self.connections):
            if isinstance(one, Connection) and one.is_late(now, self.settings):
                self.metrics.closed.labels("late").inc()


def most_connections(settings: ServeSettings) -> int:
    """Return how many connections may be open, with descriptors left for everything else."""
    allowed = free_descriptors()
    if allowed is None:
        return settings.connections
    spare = SPARE_DESCRIPTORS + SPARE_FOR_WORK * settings.at_once
    if allowed - spare < LEAST_CONNECTIONS:
        raise Mistake(
            f"{allowed} more files and connections may be open here, and {spare} are for files; "
            f"raise the limit, such as by `ulimit -n 1024`."
        )
    return min(settings.connections, allowed - spare)


def free_descriptors() -> int | None:
    """Return how many more files and connections this process may open; nothing where no limit is told."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return None
    try:
        used = len(os.listdir("/dev/fd"))
    except OSError:
        used = 32
    return most - used


def connection_maker(config: Config, state: ServerState, more: dict) -> Callable[[], Connection]:
    """Return what makes a connection."""
    return lambda: Connection(config=config, server_state=state, app_state=more)
