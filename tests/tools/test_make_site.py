"""The documentation site, built once and looked at: whole, offline, fit for a phone, and a calculator that is right.

A browser opens the pages from their folder, as a reader without a server would.
"""

import importlib.util
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import torch
from browser_pages import OpenedPage, comes, needs_chromium

import shadowmetric
from tools.pages.memory_page import loss_of, sizes_of

ROOT = Path(__file__).parents[2]


def module_of(file: str):
    spec = importlib.util.spec_from_file_location(Path(file).stem, ROOT / file)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("built") / "site"
    module_of("tools/make_site.py").build(out)
    return out


@pytest.fixture
def opened(browser, site):
    pages = []

    def one(name, **more):
        pages.append(OpenedPage(browser, (site / name).as_uri(), **more))
        return pages[-1]

    yield one
    for found in pages:
        found.context.close()


class Addresses(HTMLParser):
    """What a page links to or loads, and the ids that it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in ("script", "img", "link", "iframe", "source") and given.get("rel") != "canonical":
            self.loaded += [given[name] for name in ("src", "href") if given.get(name)]


def pages_of_nav(entries):
    for entry in entries:
        for found in entry.values():
            yield from [found] if isinstance(found, str) else pages_of_nav(found)


def test_the_navigation_names_every_page():
    settings = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    assert sorted(pages_of_nav(settings["project"]["nav"])) == sorted(page.name for page in ROOT.glob("docs/*.md"))


def test_every_link_of_the_site_leads_somewhere_on_it(site):
    pages = {page: Addresses(page.read_text(encoding="utf-8")) for page in site.rglob("*.html")}
    assert len(pages) > 40
    for page, found in pages.items():
        if page.name == "404.html":  # its addresses count from the root of a server
            continue
        for address in found.links + found.loaded:
            if re.match(r"(https?|mailto|data|javascript):", address):
                assert address in found.links, f"{page} loads {address}"
                continue
            path, _, anchor = unquote(address).partition("#")
            target = (page.parent / path).resolve() if path else page.resolve()
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{page.relative_to(site)} links to {address}"
            assert target.is_relative_to(site.resolve())
            if anchor and target.suffix == ".html" and not anchor.startswith("__"):
                assert anchor in pages[site / target.relative_to(site.resolve())].ids, f"{page.name}: {address}"


def test_files_of_the_repository_are_pages_of_the_site(site):
    text = (site / "memory.html").read_text(encoding="utf-8")
    assert 'href="files/src/shadowmetric/ops/memory.py.html"' in text
    code = (site / "files/src/shadowmetric/ops/memory.py.html").read_text(encoding="utf-8")
    assert "Bytes as a formula" in code
    record = "paper/records/small/memory.json"
    assert (site / "files" / record).read_bytes() == (ROOT / record).read_bytes()


def test_the_api_page_has_every_public_name(site):
    ids = Addresses((site / "api.html").read_text(encoding="utf-8")).ids
    assert {name for name in shadowmetric.__all__ if f"shadowmetric.{name}" not in ids} == set()


def test_parameters_of_a_docstring_become_a_list():
    listed = module_of("tools/listed_parameters.py").list_parameters
    text = "Do it.\n\nmargin: how far,\nand more.\nminer: which.\n\nMemory: none."
    assert listed(text) == "Do it.\n\n\n- `margin`: how far,\n    and more.\n- `miner`: which.\n\nMemory: none."


PAGES = ("index.html", "scale.html", "claims.html", "semantics.html", "api.html", "memory.html")


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_phone_and_ask_nobody(opened, site, scheme):
    found = opened(PAGES[0], viewport={"width": 360, "height": 800}, color_scheme=scheme)
    for name in PAGES:
        found.page.goto((site / name).as_uri())
        assert found.page.evaluate("document.documentElement.scrollWidth") <= 360, name
        ground = found.page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(map(int, re.findall(r"\d+", ground)[:3])) > 3 * 128
        assert light == (scheme == "light"), (name, ground)
    assert found.said == []
    assert [address for address in found.asked if not address.startswith(("file:", "data:", "blob:"))] == []


@needs_chromium
def test_the_reader_can_choose_the_dark(opened):
    found = opened("index.html", color_scheme="light")
    scheme = "document.body.getAttribute('data-md-color-scheme')"
    assert comes(lambda: found.page.evaluate(scheme), "default") == "default"
    for name in ("Switch to light mode", "Switch to dark mode"):
        found.page.locator(f'label[title="{name}"]').click()
    assert comes(lambda: found.page.evaluate(scheme), "slate") == "slate"
    found.page.reload()
    assert comes(lambda: found.page.evaluate(scheme), "slate") == "slate"


@needs_chromium
def test_search_works_in_a_folder(opened):
    found = opened("index.html")
    found.page.locator("button.md-search__button").click()
    found.page.keyboard.type("silhouette")
    found.page.get_by_text("Evaluation, defined").last.wait_for()
    assert found.said == []


SETTINGS = [  # loss, miner, rows, dim, images of a class, classes, type, scratch
    ("shadow", "semi_hard", 4096, 128, 5, 100, "float32", 32),
    ("shadow", "hard", 65536, 512, 7, 100, "float16", 128),
    ("triplet", "batch_hard", 33, 8, 4, 100, "float64", 8),
    ("angular_triplet", "all", 1_000_000, 64, 1, 100, "bfloat16", 512),
    ("multi_similarity", None, 2, 1, 2, 100, "float32", 32),
    ("lifted_structure", None, 5000, 2048, 50, 100, "float64", 32),
    ("soft_triple", None, 256, 64, 5, 11_318, "float32", 8),
    ("arc_face", None, 512, 512, 4, 1_000_000, "float16", 32),
]


@needs_chromium
def test_the_calculator_gives_the_bytes_and_formulas_of_the_code(opened):
    page = opened("memory.html").page
    page.wait_for_selector("#memory-calculator[data-ready=true]")
    field = "#memory-calculator [name={}]".format
    for name, miner, rows, dim, per_class, classes, dtype, scratch in SETTINGS:
        loss = loss_of(name, miner, dim=dim, scratch_mb=scratch)  # of one class: at most as much in blocks of many
        sizes = sizes_of(loss, rows, dim, per_class)
        if sizes.centers:
            sizes = sizes._replace(centers=sizes.centers * classes)
        cost = loss.memory(getattr(torch, dtype))
        page.select_option(field("loss"), name)
        if miner:
            page.select_option(field("miner"), miner)
        else:
            assert page.locator(field("miner")).is_disabled()
        assert page.locator(field("classes")).is_disabled() == (sizes.centers == 0)
        if sizes.centers:
            page.fill(field("classes"), str(classes))
        for which, value in (("rows", rows), ("dim", dim), ("per_class", per_class)):
            page.fill(field(which), str(value))
        page.select_option(field("dtype"), dtype)
        page.select_option(field("scratch"), str(scratch))

        def answer(which):
            return int(page.get_attribute(f"[data-answer={which}]", "data-bytes"))

        assert answer("kept") == cost.kept.at(sizes), name
        assert answer("peak") == cost.peak(sizes), name
        assert answer("rows") == rows * dim * getattr(torch, dtype).itemsize
        assert answer("square") == rows**2 * getattr(torch, dtype).itemsize
        assert answer("cube") == rows**3
        assert page.inner_text("[data-answer=kept_formula]") == str(cost.kept)
        assert page.inner_text("[data-answer=peak_formula]") == str(cost)


@needs_chromium
def test_the_calculator_works_with_keys_and_names_what_is_wrong(opened):
    page = opened("memory.html", viewport={"width": 360, "height": 800}).page
    page.get_by_label("Loss", exact=True).focus()
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("8192")
    assert page.get_attribute("[data-answer=square]", "data-bytes") == str(4 * 8192**2)
    page.get_by_label("Rows in the batch, S").fill("1.5")
    assert page.inner_text(".calculator-trouble") == "Rows in the batch, S: give a whole number from 2 to 10,000,000."
    assert page.inner_text("[data-answer=kept]") == "–"
    page.get_by_label("Rows in the batch, S").fill("16")
    assert page.locator(".calculator-trouble").is_hidden()


@needs_chromium
def test_without_scripts_the_examples_stay(opened):
    page = opened("memory.html", java_script_enabled=False).page
    assert page.locator("#memory-calculator").is_hidden()
    assert page.get_by_text("The calculator needs JavaScript").is_visible()
    assert page.get_by_text("one S × S × S mask, a byte each").last.is_visible()
