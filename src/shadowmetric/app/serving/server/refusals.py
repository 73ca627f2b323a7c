"""Errors of the API: a status and one sentence, {"detail": "..."}; the sentence never has a path of this machine."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from shadowmetric.app.serving.server.answers import Problem, printable

WORDS = {
    403: "A foreign page asked, or a name that is not this server's.",
    404: "There is no such image or class.",
    408: "The upload did not arrive in time.",
    413: "The upload has too many bytes.",
    422: "The upload is no image, or has too many pixels; or a parameter is out of its range.",
    503: "Too many requests are waiting, or the server is stopping; try again after the seconds in Retry-After.",
}
RETRY = {"Retry-After": "1"}
LONGEST_ECHO = 60


class Refused(Exception):
    """A request that gets no other answer."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None):
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, dict(headers or {})


def stopping() -> Refused:
    """Return the refusal of whoever comes, or still waits, when the server has been told to stop."""
    return Refused(503, "The server is stopping; try again in a second.", RETRY | {"Connection": "close"})


def document_statuses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says of statuses that a route may answer with; 403 every route may."""
    return {status: {"model": Problem, "description": WORDS[status]} for status in sorted({403, *statuses})}


def problem(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the answer of an error."""
    return JSONResponse({"detail": sentence}, status, headers=dict(headers or {}) | {"Cache-Control": "no-store"})


def echo(value: object) -> str:
    """Return what somebody sent, short enough to be sent back."""
    text = repr(printable(value) if isinstance(value, str) else value)
    return text if len(text) <= LONGEST_ECHO else f"{text[:LONGEST_ECHO]}…"


async def on_refused(_: Request, refused: Exception) -> JSONResponse:
    """Answer a refusal of our own."""
    assert isinstance(refused, Refused)
    return problem(refused.status, refused.sentence, refused.headers)


async def on_invalid(_: Request, wrong: Exception) -> JSONResponse:
    """Answer a parameter that is out of its range."""
    assert isinstance(wrong, RequestValidationError)
    first = wrong.errors()[0]
    reason = str(first["msg"]).removeprefix("Input ")
    return problem(422, f"{first['loc'][-1]} is {echo(first.get('input'))}; it {reason}.")


async def on_http(_: Request, wrong: Exception) -> JSONResponse:
    """Answer an address or a method that is not there."""
    assert isinstance(wrong, HTTPException)
    sentence = {404: "There is nothing at this address.", 405: "This address does not take that method."}
    return problem(wrong.status_code, sentence.get(wrong.status_code, f"{wrong.detail}."), wrong.headers)


async def on_gone(_: Request, __: Exception) -> JSONResponse:
    """Answer somebody who went away during an upload; nobody reads it."""
    return problem(408, "the upload broke off.", {"Connection": "close"})


def install(app: FastAPI) -> None:
    """Give an application these answers."""
    app.add_exception_handler(Refused, on_refused)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(ClientDisconnect, on_gone)
