"""The page in a real browser: quiet, harmless, readable, and its slider tells the truth."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from offpolicy.report.document import Results
from offpolicy.report.html.provenance import File, Provenance
from tests.support.pages import (
    HOSTILE,
    IMAGE,
    MARKS,
    SCRIPT,
    compared,
    evaluated,
    examined,
    learned,
    learned_ranker,
    ranked,
    unsupported,
)

pytestmark = pytest.mark.browser
CHROMIUM = os.environ.get("OFFPOLICY_CHROMIUM") or shutil.which("chromium")
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip("Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield found
        found.close()


class Opened:
    """A page with everything that it did."""

    def __init__(self, browser, path: Path, **settings: object) -> None:
        self.page = browser.new_page(**({"viewport": {"width": 1280, "height": 900}} | settings))
        self.said: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.page.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    provenance = Provenance(
        ("offpolicy", "evaluate", "log.parquet"), {"offpolicy": "0.1.0"},
        (File("log.parquet", 1000, 1500, "ab" * 32),), "2026-01-01 00:00:00 UTC", 1.5,
    )  # fmt: skip
    hostile = Provenance(
        ("offpolicy", SCRIPT, IMAGE, MARKS), {SCRIPT: IMAGE},
        (File(IMAGE, 1, 1, "ab"), File(SCRIPT, 1, 1, "ab"), File(MARKS, 1, None, None)),
        SCRIPT, 1.0,
    )  # fmt: skip
    names = (SCRIPT, IMAGE, MARKS, *HOSTILE[3:6])
    documents = {
        "one": Results((evaluated(),), (), provenance),
        "several": Results((evaluated(policies=("new", "old")), compared()), None, provenance),
        "lost": Results((unsupported(),), None, provenance),
        "hostile": Results(
            (evaluated(names=names, policies=(SCRIPT, IMAGE, MARKS)),
             compared((SCRIPT, IMAGE, MARKS))), None, hostile,
        ),
        "rankers": Results(
            ranked(("new", SCRIPT, IMAGE, MARKS), ("average rank", "dcg@3")), None, hostile
        ),
        "examined": Results((examined(),), None, hostile),
        "learned": Results((learned(),), None, hostile),
        "learned ranker": Results((learned_ranker(),), None, hostile),
    }  # fmt: skip
    for name, document in documents.items():
        document.to_html(folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in documents}


CHARTS = {
    "one": 4, "several": 4, "lost": 4, "hostile": 4, "rankers": 18, "examined": 1, "learned": 5,
    "learned ranker": 3,
}  # fmt: skip
"""At least so many on each page."""


CONTRAST = """
() => {
  const parse = c => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const found = [];
  document.querySelectorAll("details").forEach(d => d.open = true);
  document.querySelectorAll("body *").forEach(e => {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    const silent = ["SCRIPT", "STYLE", "title"].includes(e.tagName);
    if (!own || silent || !e.getClientRects().length) return;
    const style = getComputedStyle(e), svg = e instanceof SVGElement;
    const [a, b] = [light(parse(svg ? style.fill : style.color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push([e.tagName, e.textContent.slice(0, 40), ratio]);
  });
  return found;
}
"""


@pytest.mark.parametrize("name", CHARTS)
def test_a_page_is_quiet_and_can_be_read_at_every_width_in_both_themes(browser, written, name):
    with Opened(browser, written[name]) as opened:
        page = opened.page
        assert page.locator("figure svg:visible").count() >= CHARTS[name]
        assert page.locator("img, iframe, object, embed").count() == 0
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(CONTRAST) == []  # with all details open
            paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (paper == "rgb(22, 23, 26)") == (scheme == "dark")
        for width in (800, 360):
            page.set_viewport_size({"width": width, "height": 700})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            shown = page.locator("figure .narrow svg:visible").count()
            assert (shown > 0) == (width == 360)
        page.wait_for_timeout(100)
        assert opened.said == []
        asked = [url for url in opened.requests if not url.startswith("data:")]
        assert asked == [written[name].as_uri()]


def test_the_policy_of_the_page_stops_other_scripts(browser, written, tmp_path):
    text = written["one"].read_text(encoding="utf-8")
    bad = '<script>document.title = "owned"</script><img src="https://example.invalid/x.png">'
    (tmp_path / "bad.html").write_text(text.replace("</main>", f"{bad}</main>"), encoding="utf-8")
    with Opened(browser, tmp_path / "bad.html") as opened:
        opened.page.wait_for_timeout(100)
        assert opened.page.title() != "owned"
        assert len(opened.said) >= 2
        assert all("Content Security Policy" in said for said in opened.said)


def test_the_slider_reads_off_the_curve(browser, written):
    row = evaluated().headline
    with Opened(browser, written["one"]) as opened:
        slider, output = opened.page.locator("input[type=range]"), opened.page.locator("output")
        assert slider.is_visible()
        assert output.text_content().startswith(
            f"M = {row.M:.3g}: estimate {row.values[row.grid.index(row.M)]:.3f}"[:-1]
        )
        assert opened.page.locator(".cursor:visible").count() == 0
        slider.focus()
        opened.page.keyboard.press("Home")
        assert output.text_content().startswith(f"M = 0: estimate {row.values[0]:.3f}"[:-1])
        assert slider.get_attribute("aria-valuetext") == output.text_content()
        opened.page.keyboard.press("ArrowRight")
        assert output.text_content().startswith(f"M = 0.1: estimate {row.values[1]:.3f}"[:-1])
        opened.page.keyboard.press("End")
        assert output.text_content().startswith(f"M = ∞: estimate {row.values[-1]:.3f}"[:-1])
        assert opened.page.locator(".wide .cursor").first.get_attribute("transform")
        opened.page.locator("#curve .wide svg").first.hover(position={"x": 50, "y": 100})
        assert output.text_content().startswith("M = 0")


def test_the_json_is_saved(browser, written, tmp_path):
    with Opened(browser, written["one"], accept_downloads=True) as opened:
        with opened.page.expect_download() as begun:
            opened.page.get_by_role("button", name="Save as JSON").click()
        begun.value.save_as(tmp_path / "twin.json")
    twin = (tmp_path / "twin.json").read_text(encoding="utf-8")
    assert Results.from_json(twin).results == (evaluated(),)
    assert json.loads(twin)["schema"] == "offpolicy.results/1"


def test_warnings_appear_when_they_should_and_only_then(browser, written):
    with Opened(browser, written["one"]) as opened:
        assert opened.page.locator(".warning").count() == 0
        assert "No warnings." in opened.page.locator("#warnings").text_content()
    with Opened(browser, written["lost"]) as opened:
        found = opened.page.locator(".warning")
        assert [one.get_attribute("data-code") for one in found.all()] == ["support"]
        assert "What to do:" in found.first.text_content()
        assert "No warnings." not in opened.page.locator("#warnings").text_content()


def test_hostile_names_are_shown_harmlessly(browser, written):
    with Opened(browser, written["hostile"]) as opened:
        page = opened.page
        assert page.title().endswith("off-policy evaluation")
        assert page.locator("img, iframe, object, embed").count() == 0
        assert page.locator("script").count() == page.locator("script[type]").count() + 1
        assert SCRIPT in page.locator("h1").text_content()
        assert IMAGE in page.locator("#again").text_content()
        assert "\u202e" not in page.locator("main").inner_text()
        assert opened.said == []
        assert written["hostile"].stat().st_size < 1_000_000


def test_everything_can_be_reached_and_is_named(browser, written):
    with Opened(browser, written["several"]) as opened:
        page = opened.page
        for svg in page.locator("figure svg:visible").all():
            assert svg.get_attribute("role") == "img"
            assert len(svg.get_attribute("aria-label")) > 20
        levels = page.evaluate(
            "[...document.querySelectorAll('h1,h2,h3')].map(h => Number(h.tagName[1]))"
        )
        assert levels[0] == 1
        assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
        assert page.locator("html").get_attribute("lang") == "en"
        for field in page.locator("input").all():
            assert page.locator(f"label[for='{field.get_attribute('id')}']").count() == 1
        page.keyboard.press("Tab")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outline) != "none"


def test_on_paper_it_is_light_with_its_tables_and_without_the_slider(browser, written, tmp_path):
    with Opened(browser, written["one"], color_scheme="dark") as opened:
        opened.page.emulate_media(media="print")
        assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)"
        )
        assert opened.page.locator(".slider:visible, button:visible").count() == 0
        opened.page.pdf(path=tmp_path / "page.pdf", format="A4")
        assert (tmp_path / "page.pdf").stat().st_size > 10_000
        assert opened.page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
