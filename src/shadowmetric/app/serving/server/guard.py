"""What every request passes: names of the host, token, origins, headers, counts; and what nobody foresaw.

A loopback server answers to its own names alone: else a foreign page whose name is made to lead to 127.0.0.1 could read
the images. A POST that a browser sends for a foreign page is refused. There is no CORS. A proxy in front has a name
of its own, which `ServeSettings.names` adds to both: it may hand on the Host that it was asked for, or ours.

A request that says twice where its body ends may be two for us and one for the proxy in front: refused, and the
connection is closed, so that nothing behind it is read.
"""

import asyncio
import logging
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shadowmetric.app.serving.server.refusals import CLOSE, Refused, problem, stopping
from shadowmetric.app.serving.server.service import Service
from shadowmetric.app.serving.server.token import CHALLENGE, is_allowed

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "geolocation=(), microphone=()",
}
FOREIGN_NAME = "This server answers to its own names alone; --name lets a proxy's name in, --host other machines."
FOR_EVERYBODY = ("/health",)  # watchers have no token, and learn nothing
DEFAULT_PORTS = {"http": 80, "https": 443}
log = logging.getLogger("shadowmetric.serve")


class Guard:
    """Stands before the application."""

    def __init__(self, app: ASGIApp, service: Service):
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count a request, and put the headers on its answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 500

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(raw=message["headers"])
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
                message["headers"] = headers.raw
            await send(message)

        with self.service.metrics.in_flight.track_inprogress():
            try:
                await self.let_through(scope, receive, send_on)
            finally:
                route = getattr(scope.get("route"), "path", "none")
                self.service.metrics.count_request(scope["method"], route, status)

    async def let_through(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that is refused here, or hand it on."""
        begun = False

        async def send_on(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        if (refused := self.refusal(scope)) is not None:
            await problem(refused.status, refused.sentence, refused.headers | CLOSE)(scope, receive, send)
            return
        try:
            await self.app(scope, receive, send_on)
        except asyncio.CancelledError:  # the last seconds are over, or a second Ctrl-C; uvicorn would show a traceback
            if not begun:
                refused = stopping()
                await problem(refused.status, refused.sentence, refused.headers)(scope, receive, send)
        except Exception:
            log.exception("a request failed")
            if begun:
                raise
            await problem(500, "The server failed; its log says why.")(scope, receive, send)

    def refusal(self, scope: Scope) -> Refused | None:
        """Return why a request is not let through."""
        headers, settings = Headers(scope=scope), self.service.settings
        if "transfer-encoding" in headers and ("content-length" in headers or scope["http_version"] == "1.0"):
            return Refused(400, "A request has either a Content-Length or, in HTTP/1.1, a Transfer-Encoding.")
        host = headers.get("host", "")
        if settings.loopback and name_of(host) not in settings.host_names:
            return Refused(403, FOREIGN_NAME)
        locked = settings.token and scope["path"] not in FOR_EVERYBODY
        if locked and not is_allowed(headers.get("authorization", ""), settings.token):
            return Refused(401, "The token is missing or wrong; send it as `Authorization: Bearer`.", CHALLENGE)
        if scope["method"] in ("GET", "HEAD"):
            return None
        origin = headers.get("origin")
        ours = origin is None or any(same(origin, name) for name in (host, *settings.names))
        if headers.get("sec-fetch-site") == "cross-site" or not ours:
            return Refused(403, "A page of another origin asked; open this server's own page.")
        return None


def name_of(host: str) -> str:
    """Return a Host header without its port, in small letters."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdecimal() else host).lower()


def same(origin: str, host: str) -> bool:
    """Return whether an Origin header is of the host that was asked."""
    try:
        url = urlsplit(origin)
        usual = DEFAULT_PORTS.get(url.scheme)
        here = urlsplit(f"//{host}")
        return usual is not None and (url.hostname, url.port or usual) == (here.hostname, here.port or usual)
    except ValueError:  # a port that is none
        return False
