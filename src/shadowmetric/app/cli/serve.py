"""`shadowmetric serve`: a page and a JSON API that search an index."""

import importlib.util
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from shadowmetric.errors import Mistake

EXAMPLES = """\
Examples:

    shadowmetric serve birds.shadowmx --open
    shadowmetric serve birds.shadowmx --port 8080 --max-upload-mb 32
    shadowmetric serve birds.shadowmx --host 0.0.0.0 --token-file token
    shadowmetric serve birds.shadowmx --name pics.example.com
    shadowmetric serve postgresql://localhost/images --model runs/birds

and from another program:

    curl --data-binary @photo.jpg 'http://127.0.0.1:8000/api/search?k=5'
"""
NEEDED = ("fastapi", "prometheus_client", "uvicorn")


app = App(name="serve", usage="Usage: shadowmetric serve INDEX [OPTIONS]", help_epilogue=EXAMPLES)


@app.default
def serve(
    index: str | None = None,
    /,
    *,
    model: Annotated[Path | None, Parameter(show_default=False)] = None,
    images: Annotated[Path | None, Parameter(show_default=False)] = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    max_upload_mb: int = 16,
    max_pixels: int = 40_000_000,
    at_once: Annotated[int | None, Parameter(show_default=False)] = None,
    waiting: int = 16,
    connections: int = 1000,
    name: Annotated[tuple[str, ...], Parameter(show_default=False, negative="")] = (),
    token_file: Annotated[Path | None, Parameter(show_default=False)] = None,
    no_token: Annotated[bool, Parameter(negative="")] = False,
    open_page: Annotated[bool, Parameter(name="--open", negative="")] = False,
) -> None:
    """Search an index in a browser: drop an image, see its neighbors, search on from one of them.

    This machine alone can reach it unless --host says otherwise. Uploads stay in memory. A new index that takes the
    place of the file is searched without a restart. /openapi.json describes the JSON, /metrics counts.

    Parameters
    ----------
    index
        A file that `shadowmetric index` wrote, or an address of a vector store.
    model
        The run, or the .onnx file, that made the index. Default: where the index says it was.
    images
        The indexed folder. Default: where the index says it is; name it if it has moved, or if the index is another's.
    host
        Address to listen at; 0.0.0.0 lets everybody in who reaches this machine.
    port
        Port to listen at; 0 for any that is free.
    max_upload_mb
        Largest upload, in million bytes.
    max_pixels
        Most pixels of an image, uploaded or shown.
    at_once
        Requests that are decoded, embedded and searched at once. Default: the cores.
    waiting
        Requests that wait for their turn; more are refused with 503.
    connections
        Open connections at most, and fewer if this process may not open so many files. At the limit the one that has
        been silent longest makes room.
    name
        A name by which a proxy in front is called, such as pics.example.com; give it again for another.
    token_file
        A file with a token, without which nothing is answered; or put it into $SHADOWMETRIC_TOKEN. Programs send it as
        `Authorization: Bearer`, browsers ask for it as a password. Needed unless this machine alone can reach --host.
    no_token
        Let everybody ask who reaches --host.
    open_page
        Open the page in a browser.
    """
    if index is None:
        raise Mistake("no index is named; write `shadowmetric serve INDEX`, where `shadowmetric index` wrote INDEX.")
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise Mistake(f"{', '.join(missing)} is not installed; run `pip install 'shadowmetric[serve]'`.")
    from shadowmetric.app.serving.server.settings import ServeSettings, cores
    from shadowmetric.app.serving.server.token import read_token

    working = cores() if at_once is None else at_once
    token = read_token(token_file, no_token)
    settings = ServeSettings(
        host, port, max_upload_mb, max_pixels, working, waiting, connections, names=name, token=token, no_token=no_token
    )
    run(index, model, images, settings, open_page)


def run(index: str, instead: Path | None, images: Path | None, settings, open_page: bool) -> None:
    """Open everything, answer requests, and say so."""
    from shadowmetric.app import serving
    from shadowmetric.app.cli.screen import say, screen

    console = screen()

    def begun(address: str, images: int) -> None:
        say(console, f"{address} searches {images:,} images. Ctrl-C stops.")
        if settings.token:
            say(console, "The token is asked for; browsers call it the password, and any name will do.")
        if not settings.loopback:
            say(console, beyond(settings), "yellow")
        if open_page:
            show_page(address)

    serving.serve(index, settings, model=instead, images=images, begun=begun)
    say(console, "Stopped.")


def beyond(settings) -> str:
    """Return what somebody should know who listens for other machines."""
    if settings.token:
        return "The token and the images can be read on their way here; put a proxy with TLS in front."
    return f"Everybody who reaches {settings.host} can search, and see the images."


def show_page(address: str) -> None:
    """Open a browser, which may take its time."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
