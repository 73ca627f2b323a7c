"""What the server allows: where it listens, how large an upload may be, how many are at work at once."""

import ipaddress
import os
import re
from dataclasses import dataclass, field

from shadowmetric.errors import Mistake

MOST_NEIGHBORS = 200
LEAST = {"max_upload_mb": 1, "max_pixels": 1, "at_once": 1, "waiting": 0, "connections": 1}
NAMES_OF_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(:[0-9]{1,5})?")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class ServeSettings:
    """Limits of the server. Uploads in memory are at most (at_once + waiting) × max_upload_mb, arriving ones too."""

    host: str = "127.0.0.1"
    port: int = 8000
    max_upload_mb: int = 16
    max_pixels: int = 40_000_000
    at_once: int = field(default_factory=cores)  # requests that are decoded, embedded and searched
    waiting: int = 16  # requests that wait for their turn; more are refused
    connections: int = 1000  # that are open at once, if there are descriptors for so many
    header_seconds: float = 10.0  # for the header of a request, from the connection or the answer before
    seconds: float = 30.0  # for a whole upload; and without anybody reading an answer
    idle_seconds: float = 5.0  # within which `least_rate` of an upload has to arrive, again and again
    least_rate: int = 1000  # bytes a second
    bound: str = ""  # the address that is listened at, once it is: a name may lead anywhere
    names: tuple[str, ...] = ()  # by which a proxy in front is called, with a port if it is not the usual one
    token: str = field(default="", repr=False)  # without which nothing but /health is answered
    no_token: bool = False  # others may ask without one

    def __post_init__(self):
        for name, least in LEAST.items():
            if (value := getattr(self, name)) < least:
                raise Mistake(f"--{name.replace('_', '-')} is {value}; give {least} or more.")
        if not 0 <= self.port <= 65535:
            raise Mistake(f"--port is {self.port}; give a number from 0, for any that is free, to 65535.")
        for name in self.names:
            if not NAME.fullmatch(name):
                raise Mistake(f"--name is {name!r}; give the name alone, such as pics.example.com.")

    @property
    def most_bytes(self) -> int:
        """How large an upload may be."""
        return self.max_upload_mb * 1_000_000

    @property
    def most_bytes_held(self) -> int:
        """How many bytes of uploads there may be in memory."""
        return (self.at_once + self.waiting) * self.most_bytes

    @property
    def loopback(self) -> bool:
        """Whether this machine alone reaches the server."""
        try:
            address = ipaddress.ip_address((self.bound or self.host).strip("[]"))
        except ValueError:
            return self.host.lower() == "localhost"
        return (getattr(address, "ipv4_mapped", None) or address).is_loopback

    def require_token(self) -> None:
        """Refuse to listen for others without a token, unless that was asked for."""
        if not (self.loopback or self.token or self.no_token):
            raise Mistake(
                f"everybody who reaches {self.host} could search and see the images; give --token-file FILE or "
                "$SHADOWMETRIC_TOKEN, or say --no-token."
            )

    @property
    def host_names(self) -> tuple[str, ...]:
        """Names by which a loopback server may be called: a foreign name that leads here is an attack."""
        proxied = (name.partition(":")[0].lower() for name in self.names)
        host = self.host.lower()
        return (*NAMES_OF_LOOPBACK, f"[{host}]" if ":" in host else host, *proxied)
