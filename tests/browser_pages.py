"""Pages in a headless browser, for every test that looks at one: what they say, what they ask for."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PATIENCE = 180_000  # milliseconds, for a machine that is busy
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine to open pages with")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=[*FLAGS, "--disable-sync"],
            env=os.environ | {"LC_ALL": "C.UTF-8"},  # else it stores nothing in a temporary folder named with an ä
            timeout=PATIENCE,
        )
        yield found
        found.close()


def comes(ask: Callable[[], Any], wanted: Any = True, seconds: float = 60) -> Any:
    """Ask until the answer is the wanted one, or the time is over; the last answer.

    Playwright's wait_for_function asks from inside the page, where a policy without 'unsafe-eval' forbids it from the
    second question on; a fixed pause is too short on a busy machine.
    """
    end = time.monotonic() + seconds
    while (found := ask()) != wanted and time.monotonic() < end:
        time.sleep(0.02)
    return found


class OpenedPage:
    """A page, and everything that it said or asked for."""

    def __init__(self, browser: Any, address: str, **more: Any):
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **more})
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.said, self.asked, self.dialogs = [], [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        self.page.goto(address)
