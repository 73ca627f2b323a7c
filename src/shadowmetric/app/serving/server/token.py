"""A token: who has it may ask. Programs send `Authorization: Bearer TOKEN`; a browser asks for a name and a password.

The password of HTTP's Basic scheme is the token, and the name is anybody's, so that the page, its images and its
requests need no code for it. Tokens are compared by their SHA-256 in constant time, which tells neither how many
characters are right nor how long the token is. It goes over the wire as it is: beyond this machine it needs TLS in
front.
"""

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping
from pathlib import Path

from shadowmetric.errors import Mistake

VARIABLE = "SHADOWMETRIC_TOKEN"
LEAST_CHARACTERS = 16
MOST_CHARACTERS = 1024
REMEDY = "make one by `openssl rand -hex 16`"
CHALLENGE = {"WWW-Authenticate": 'Basic realm="shadowmetric: the token is the password", charset="UTF-8"'}


def read_token(file: Path | None, no_token: bool, environment: Mapping[str, str] = os.environ) -> str:
    """Return the token that was given by a file or the environment, or nothing."""
    given = f"--token-file {file}" if file is not None else f"${VARIABLE}" if environment.get(VARIABLE) else None
    if given is None:
        return ""
    if no_token:
        raise Mistake(f"--no-token is given beside {given}; leave one of them out.")
    return checked_token(environment[VARIABLE] if file is None else text_of(file), given)


def text_of(file: Path) -> str:
    """Return what is in a file, which may end in a new line."""
    try:
        with file.open("rb") as opened:
            return opened.read(4 * MOST_CHARACTERS).decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise Mistake(f"--token-file {file} cannot be read ({error.strerror}); name a file with a token.") from None
    except UnicodeDecodeError:
        raise Mistake(f"--token-file {file} is no text; {REMEDY}.") from None


def checked_token(token: str, given: str) -> str:
    """Return a token that can go over the wire and cannot be guessed. The refusal never shows it."""
    if not LEAST_CHARACTERS <= len(token) <= MOST_CHARACTERS:
        raise Mistake(
            f"the token of {given} has {len(token)} characters; it needs {LEAST_CHARACTERS} to {MOST_CHARACTERS}, "
            f"so {REMEDY}."
        )
    if not all("!" <= character <= "~" for character in token):
        raise Mistake(f"the token of {given} has spaces, lines or letters beyond ASCII; {REMEDY}.")
    return token


def is_allowed(authorization: str, token: str) -> bool:
    """Tell whether a header has the token."""
    return hmac.compare_digest(digest(token_in(authorization)), digest(token))


def token_in(authorization: str) -> str:
    """Return the token in a header of either scheme, or nothing."""
    scheme, _, rest = authorization.partition(" ")
    rest = rest.strip()
    if scheme.lower() == "bearer":
        return rest
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(rest, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def digest(token: str) -> bytes:
    """Return bytes of one length, whatever was sent."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
