"""Run the application: a socket, uvicorn, signals, and the lines that people read.

Ctrl-C and SIGTERM refuse what waits or is still being uploaded with a 503, and let requests at work end, for a few
seconds at most; the process ends with exit code 0.

Each of the threads at work computes with its share of the cores: two of them with two threads each on two cores would
wait for one another.
"""

import contextlib
import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from fastapi import FastAPI

from shadowmetric.app.serving.server.limits.connections import (
    Connection,
    Door,
    connection_maker,
    most_connections,
)
from shadowmetric.app.serving.server.limits.seldom_log import SeldomLog
from shadowmetric.app.serving.server.service import Service
from shadowmetric.app.serving.server.settings import ServeSettings, cores
from shadowmetric.errors import Mistake

LAST_SECONDS = 5  # for requests at work when the server is told to stop
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """uvicorn, but a signal is a normal end, connections have limits, and somebody hears when requests are taken."""

    def __init__(self, app: FastAPI, begun: Callable[[], object] = lambda: None, log: SeldomLog | None = None):
        super().__init__(configuration(app))
        self.service: Service = app.state.service
        self.begun, self.log = begun, log
        self.most = most_connections(self.service.settings)
        self.door: Door | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        assert sockets is not None
        (listening,) = sockets
        await super().startup(sockets=[])  # else asyncio would accept
        make = connection_maker(self.config, self.server_state, self.lifespan.state)
        self.door = Door(listening, make, self.server_state, self.most, self.service)
        self.door.open()
        self.begun()

    async def on_tick(self, counter: int) -> bool:
        """Look after connections and the log, ten times a second."""
        if self.door is not None:
            self.door.look()
        if self.log is not None:
            self.log.write_due()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse what waits, finish what is at work."""
        if self.door is not None:
            self.door.close()
        self.service.stop()
        await super().shutdown(sockets=sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Hear signals while the server runs; uvicorn would raise them again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; at the second Ctrl-C, at once."""
        self.service.stopping = True
        super().handle_exit(sig, frame)


def serve(app: FastAPI, listening: socket.socket, begun: Callable[[], object] = lambda: None) -> None:
    """Answer requests until a signal says to stop; `begun` is called when they are taken."""
    share_cores(app.state.service.settings.at_once)
    log = SeldomLog()
    with log.hold_back():
        Server(app, begun, log).run(sockets=[listening])


def configuration(app: FastAPI) -> uvicorn.Config:
    """Return how uvicorn runs an application. Which loop and which HTTP is not left to what is installed."""
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=Connection,
        access_log=False,
        log_config=None,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=LAST_SECONDS,
        ws="none",
    )


def share_cores(at_once: int) -> None:
    """Let each thread at work compute with its share of the cores."""
    import torch

    torch.set_num_threads(threads_for(at_once))


def threads_for(at_once: int) -> int:
    """Return how many threads one request may compute with."""
    return max(1, cores() // at_once)


def listen(settings: ServeSettings) -> socket.socket:
    """Return a socket that listens, so that a taken port is known before a model is loaded."""
    host, port = settings.host.strip("[]"), settings.port
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise Mistake(f"--host {settings.host!r} is no address of this machine; give 127.0.0.1, or 0.0.0.0.") from None
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else asyncio lets answers wait 40 ms
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen()  # two that are only bound would not notice one another
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            another = f"--port {port + 1}" if port < 65535 else "--port 8000"
            raise Mistake(f"port {port} of {host} is taken; choose another, such as {another}.") from None
        other = "--host" if error.errno == errno.EADDRNOTAVAIL else "--port"
        raise Mistake(f"{host} port {port} cannot be listened at ({error.strerror}); choose another {other}.") from None
    return listener


def address_of(listening: socket.socket) -> str:
    """Return where the page is."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(str(host), str(host))
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
