"""The page of answers: every query and neighbor with its image, needing no network, names as text."""

from html.parser import HTMLParser

import pytest
from image_folders import HOSTILE, FakeModel, indexed, write_folder, write_image

from shadowmetric.app.serving.galleries.file_gallery import FileGallery
from shadowmetric.app.serving.searching.answers_page import page_of
from shadowmetric.app.serving.searching.search import Answer, search
from shadowmetric.runtime.entries import Entry, Hit, key_of

OURS = {"html", "meta", "title", "style", "h1", "h2", "section", "ol", "li"}
OURS |= {"figure", "figcaption", "img", "b", "br", "p"}


class Read(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.attributes, self.words = [], [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.words += data


@pytest.fixture
def photos(tmp_path):
    return write_folder(tmp_path / "photos")


def test_the_page_shows_every_answer(photos, tmp_path):
    indexed(FakeModel(), photos, tmp_path / "x")
    queries = [photos / "ant" / "0.png", photos / "bee" / "1.png"]
    answers = list(search(FileGallery(tmp_path / "x"), FakeModel(), queries, 5))
    read = Read(page_of(answers, str(photos), "Searched in x"))
    assert read.elements.count("img") == 2 + 2 * 5
    assert read.elements.count("section") == 2
    assert set(read.elements) <= OURS
    for answer in answers:
        for hit in answer.hits:
            assert hit.entry.path in read.words
            assert f"{hit.similarity:.3f}" in read.words
    sources = [value for name, value in read.attributes if name == "src"]
    assert all(value.startswith("data:image/webp;base64,") for value in sources)
    assert not [value for name, value in read.attributes if "://" in (value or "")]
    assert not [name for name, _ in read.attributes if name.startswith("on") or name == "href"]


def test_images_that_are_gone_are_said_to_be(photos):
    hits = [Hit(Entry(key_of(path), path, None), 0.5) for path in ("gone.png", "../../etc/passwd", "ant/1.png")]
    read = Read(page_of([Answer(photos / "ant" / "0.png", hits)], str(photos), "t"))
    assert read.words.count("not there") == 2
    assert read.elements.count("img") == 2


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text(tmp_path, name):
    query = write_image(tmp_path / "photos" / name, 0)
    hits = [Hit(Entry(key_of(name), name, name), 0.25), Hit(Entry(key_of(name), f"gone {name}", name), 0.25)]
    page = page_of([Answer(query, hits)], str(query.parent), name)
    read = Read(page)
    shown = name.encode("utf-8", "replace").decode()
    assert set(read.elements) <= OURS | {"div"}
    assert read.elements.count("img") == 2
    assert read.words.replace("\r", "\n").count(shown.replace("\r", "\n")) == 7
    assert [value for key, value in read.attributes if key == "alt"] == ["the query", shown]
    assert {key for key, _ in read.attributes} <= {"src", "alt", "class", "charset", "content", "lang", "name"}
    page.encode("utf-8")


def test_no_answers_are_a_page(tmp_path):
    assert Read(page_of([], str(tmp_path), "t")).elements.count("section") == 0
