"""The page in a browser: upload, filter, search on, go back; with the keyboard alone, and on a phone's width."""

import re

import pytest
from browser_pages import OpenedPage, comes, needs_chromium
from PIL import Image

from shadowmetric.app.serving.server.settings import ServeSettings

pytestmark = needs_chromium
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def server(made, tmp_path_factory):
    """A server whose index has a class with a hostile name too."""
    root = tmp_path_factory.mktemp("page") / "images"
    made.write_images(root)
    (root / EVIL).mkdir()
    made.image_of((120, 120, 120)).save(root / EVIL / f"{EVIL}.png")
    paths = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.png"))
    index = made.write_small_index(root.parent / "i.shadowmx", root, paths)
    app = made.Asked(index, ServeSettings(max_upload_mb=1)).app
    with made.listening(app) as address:
        yield app, address


@pytest.fixture
def photo(tmp_path, made, red):
    (tmp_path / "my_photo.png").write_bytes(red)
    return tmp_path / "my_photo.png"


class Opened(OpenedPage):
    """The page of a server."""

    def __init__(self, browser, address, **more):
        super().__init__(browser, address, **more)
        self.page.wait_for_selector("html[data-ready=true]")

    def upload(self, file):
        self.page.set_input_files("#choose", file)
        self.settled()

    def settled(self, words=None):
        """Wait until a search has ended; with words, until the page says them."""
        self.page.wait_for_selector("#page[data-busy=false]", state="attached")
        if words is not None:
            self.page.locator("#said, #trouble p").filter(has_text=words).first.wait_for()

    def names(self):
        return self.page.locator(".hit .name").all_inner_texts()

    def text(self, place):
        return self.page.inner_text(place)


@pytest.fixture
def opened(browser, server):
    pages = []

    def one(address="/", **more):
        pages.append(Opened(browser, server[1] + address, **more))
        return pages[-1]

    yield one
    for found in pages:
        found.context.close()


def test_an_upload_shows_its_neighbors_and_nothing_is_asked_of_others(opened, server, photo):
    found = opened()
    assert found.text("#about") == "19 images, 4 classes"
    assert found.page.get_attribute("#page", "data-state") == "empty"
    found.upload(photo)
    assert found.names()[:6] == ["red"] * 6
    assert len(found.names()) == 12
    assert found.text("#said").startswith("12 neighbors; 6 are ")
    scores = [float(text) for text in found.page.locator(".scale").all_inner_texts()]
    assert scores == sorted(scores, reverse=True)
    loaded = "[...document.images].every(one => one.complete && one.naturalWidth > 0)"
    assert comes(lambda: found.page.evaluate(loaded))
    assert all(url.startswith((server[1], "blob:")) for url in found.asked)
    assert found.said == found.dialogs == []
    assert found.text("#asked-name").startswith("my photo.png")


def test_a_neighbor_is_searched_on_from_and_back_comes_back(opened, photo):
    found = opened()
    found.upload(photo)
    first = found.names()
    last = found.page.locator(".hit").nth(11)
    path = last.get_attribute("title")
    last.click()
    found.settled(re.compile("neighbors"))
    found.page.wait_for_selector("#trail:not([hidden])")
    assert path in found.text("#asked-name")
    assert path not in [one.get_attribute("title") for one in found.page.locator(".hit").all()]
    assert "image=" in found.page.url
    assert found.page.locator(".crumb").count() == 2
    found.page.go_back()
    found.page.wait_for_selector("#trail", state="hidden")
    found.settled()
    assert found.names() == first
    found.page.go_forward()
    found.page.wait_for_selector("#trail:not([hidden])")
    found.page.locator(".crumb").first.click()
    found.page.wait_for_selector("#trail", state="hidden")
    found.settled()
    assert found.names() == first
    found.page.go_back()
    found.page.wait_for_selector("#page[data-state=empty]")
    assert found.names() == []
    assert found.said == []


def test_a_search_from_an_image_has_an_address_of_its_own(opened, photo):
    found = opened()
    found.upload(photo)
    address = found.page.locator(".hit").nth(0).get_attribute("href")
    again = opened(address)
    again.settled(re.compile("neighbors"))
    assert again.names()[:5] == ["red"] * 5
    again.page.reload()
    again.settled(re.compile("neighbors"))
    assert again.names()[:5] == ["red"] * 5


def test_a_class_and_a_number_are_asked_for(opened, photo):
    found = opened()
    found.upload(photo)
    found.page.fill("#class", "gre")
    found.page.wait_for_selector("#classes option[value=green]:only-child", state="attached")
    found.page.fill("#class", "green")
    found.page.keyboard.press("Enter")
    found.settled("6 neighbors, all green.")
    assert found.names() == ["green"] * 6
    assert "class=green" in found.page.url
    found.page.click("#clear")
    found.settled("12 neighbors")
    found.page.select_option("#count", "6")
    found.settled("6 neighbors, all red.")
    assert "k=6" in found.page.url
    found.page.fill("#class", "purple")
    found.page.keyboard.press("Enter")
    found.settled("No image has the class “purple”.")
    assert found.names() == []


def test_hostile_names_are_only_words(opened, photo):
    found = opened()
    found.upload(photo)
    found.page.select_option("#count", "24")
    found.settled("19 neighbors")
    assert EVIL in found.names()
    found.page.locator(".hit").filter(has_text=EVIL).first.click()
    found.page.wait_for_selector("#trail:not([hidden])")
    found.settled(re.compile("neighbors"))
    assert EVIL in found.text("#trail")
    assert found.page.locator("img[src=x]").count() == 0
    assert found.dialogs == found.said == []


def test_everything_works_with_the_keyboard_alone(opened, photo):
    found = opened()
    page = found.page

    def focused():
        return page.evaluate("document.activeElement.id || document.activeElement.className")

    choosers, order = [], []
    page.on(
        "filechooser", lambda chooser: choosers.append(chooser)
    )  # long before it is needed: the browser has to hear of it
    for _ in range(7):
        page.keyboard.press("Tab")
        order.append(focused())
    assert order[:3] == ["skip", "home", "choose"]
    assert [name for name in order if name in ("class", "count")] == ["class", "count"]
    assert order.index("choose") < order.index("class")
    page.focus("#choose")
    outline = "getComputedStyle(document.querySelector('.button:has(#choose)')).outlineStyle"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert page.evaluate(outline) == "solid"
    page.keyboard.press("Enter")
    while not choosers:
        page.wait_for_timeout(20)
    choosers[0].set_files(photo)
    found.settled("12 neighbors")
    page.keyboard.press("Home")
    page.focus("#trained summary")
    page.keyboard.press("Enter")
    assert page.evaluate("document.getElementById('trained').open")
    assert "birds" in found.text("#story")
    assert "/home" not in found.text("#story")
    page.keyboard.press("Tab")
    assert focused() == "hit"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement === document.querySelector('.hit')")
    page.keyboard.press("Enter")
    page.wait_for_selector("#trail:not([hidden])")
    found.settled("12 neighbors")
    assert focused() == "results", "the new neighbors are next"
    page.keyboard.press("Tab")
    assert focused() == "crumb"
    page.keyboard.press("Enter")
    page.wait_for_selector("#trail", state="hidden")
    assert found.said == []


def test_what_changes_is_announced_and_everything_has_a_name(opened, photo):
    found = opened()
    assert found.page.get_attribute("#said", "aria-live") == "polite"
    assert found.page.get_attribute("#trouble", "role") == "alert"
    found.upload(photo)
    nameless = found.page.evaluate(
        """[...document.querySelectorAll("input, select, button, a")].filter(one => !(one.ariaLabel || one.innerText
            || [...(one.labels ?? [])].some(label => label.innerText)) && !one.hidden).map(one => one.outerHTML)"""
    )
    assert nameless == []
    assert found.page.evaluate("[...document.images].every(one => one.hasAttribute('alt'))")
    label = found.page.locator(".hit").first.get_attribute("aria-label")
    assert re.fullmatch(r"red, similarity \d\.\d{3}\. Search on from this image\.", label)


def test_an_image_can_be_pasted_and_dropped(opened, red):
    found = opened()
    event = """(name, bytes) => {
        const given = new DataTransfer();
        given.items.add(new File([new Uint8Array(bytes)], "given.png", {type: "image/png"}));
        const how = {clipboardData: given, dataTransfer: given, bubbles: true, cancelable: true};
        const made = name === "paste" ? new ClipboardEvent(name, how) : new DragEvent(name, how);
        document.body.dispatchEvent(made);
    }"""
    for name in ("paste", "drop"):
        found.page.evaluate(f"([name, bytes]) => ({event})(name, bytes)", [name, list(red)])
        found.settled("12 neighbors")
        assert found.names()[0] == "red"
        found.page.click("#home")
        found.page.wait_for_selector("#page[data-state=empty]")
    found.page.evaluate(f"([name, bytes]) => ({event})(name, bytes)", ["dragenter", list(red)])
    assert found.page.is_visible("#veil")
    found.page.evaluate(f"([name, bytes]) => ({event})(name, bytes)", ["dragleave", list(red)])
    assert not found.page.is_visible("#veil")


def test_errors_are_plain_words(opened, server, photo, tmp_path, made, monkeypatch):
    app, _ = server
    found = opened()
    words = tmp_path / "words.png"
    words.write_text("words")
    found.upload(words)
    found.settled("The upload is no image; send a JPEG, PNG or WebP file.")
    assert not found.page.is_visible("#again")
    (tmp_path / "empty.png").write_bytes(b"")
    found.upload(tmp_path / "empty.png")
    found.settled("This file is empty.")
    (tmp_path / "large.png").write_bytes(bytes(1_500_000))
    found.upload(tmp_path / "large.png")
    found.settled("This image has 1.5 MB; the most is 1 MB.")
    Image.new("L", (9000, 9000)).save(tmp_path / "bomb.png")
    found.upload(tmp_path / "bomb.png")
    found.settled("the most is 40,000,000")
    with monkeypatch.context() as patch:
        patch.setattr(app.state.service.searches, "room", 0)
        found.upload(photo)
        found.settled("The server is busy.")
    found.page.click("#again")
    found.settled("12 neighbors")
    assert not found.page.is_visible("#trouble")
    found.page.reload()
    found.settled("Images are not kept when the page is left.")


def test_what_is_no_image_leaves_no_broken_one_beside_the_refusal(opened, photo, tmp_path):
    found = opened()
    broken = "[...document.images].filter(one => one.offsetParent && one.complete && !one.naturalWidth).length"
    (tmp_path / "words.png").write_text("words")
    found.upload(tmp_path / "words.png")
    found.settled("The upload is no image; send a JPEG, PNG or WebP file.")
    assert comes(lambda: not found.page.is_visible("#preview"))
    assert found.page.evaluate(broken) == 0
    assert found.text("#asked-name").startswith("words.png")
    found.upload(photo)
    found.settled("12 neighbors")
    assert found.page.is_visible("#preview")
    found.page.route("**/api/images/*?side=*", lambda route: route.abort())
    found.page.locator(".hit").first.click()
    found.page.wait_for_selector("#trail:not([hidden])")
    found.settled("12 neighbors")
    assert comes(lambda: found.page.locator(".crumb img").count() == 1)  # the photo's own
    assert comes(lambda: found.page.evaluate(broken) == 0)


def test_a_server_that_is_gone_is_said_and_can_be_tried_again(opened, photo):
    found = opened()
    found.context.set_offline(True)
    found.upload(photo)
    found.settled("The server does not answer.")
    found.context.set_offline(False)
    found.page.click("#again")
    found.settled("12 neighbors")


def test_a_thumbnail_that_is_not_there_says_so(opened, photo):
    found = opened()
    found.page.route("**/api/images/**", lambda route: route.abort())
    found.upload(photo)
    found.page.locator(".missing").first.wait_for()
    assert found.page.locator(".missing").first.inner_text() == "This image cannot be shown."


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (360, "dark"), (1280, "light")])
def test_no_width_scrolls_sideways_and_words_can_be_read(opened, photo, width, scheme):
    found = opened(viewport={"width": width, "height": 700}, color_scheme=scheme)
    sideways = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not found.page.evaluate(sideways)
    found.upload(photo)
    found.page.select_option("#count", "24")
    found.settled("19 neighbors")
    found.page.click("#trained summary")
    for _ in range(3):
        found.page.locator(".hit").last.click()
        found.settled("18 neighbors")
    assert not found.page.evaluate(sideways)
    small = found.page.evaluate(
        """[...document.querySelectorAll(".button, select, input[type=text], .crumb")]
            .filter(one => one.offsetParent && one.offsetHeight < 40).map(one => one.outerHTML)"""
    )
    assert small == []
    colors = found.page.evaluate(CONTRAST)
    assert min(colors.values()) >= 4.5, colors


CONTRAST = """() => {
    const light = (color) => {
        const [r, g, b] = color.match(/[0-9.]+/g).map(Number).map(part => part / 255)
            .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const paper = light(getComputedStyle(document.body).backgroundColor);
    const found = {};
    for (const place of ["#about", ".name", ".path", ".scale", ".said", "dt", "dd", ".crumb", "label[for=class]"]) {
        const ink = light(getComputedStyle(document.querySelector(place)).color);
        found[place] = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    }
    return found;
}"""


def test_less_motion_is_obeyed(opened, photo):
    found = opened(reduced_motion="reduce")
    found.upload(photo)
    assert found.page.evaluate("getComputedStyle(document.querySelector('.frame img')).transitionDuration") == "0s"
