"""The page in a real browser: `make test-browser`. It opens without errors, draws every figure, filters, and asks nobody."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raytree import Categorical, Float, TreeOptimizer
from raytree.report import Source, view_of, write_page
from tests import searches

pytestmark = pytest.mark.browser

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
DRIVER = os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver")
EVIL = '</script><img src=x onerror="window.hacked=1"><b>&"\''
EVIL_KEY = '<i onmouseover="window.hacked=2">C'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None or DRIVER is None:
        pytest.fail("no chromium or no chromedriver: apt-get install chromium chromium-driver, or set CHROMIUM and CHROMEDRIVER")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


class Page:
    """One page, opened."""

    def __init__(self, browser: Any, path: Path, theme: str = "light", width: int = 1280) -> None:
        self.browser = browser
        browser.get_log("browser")
        browser.get_log("performance")
        device = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", device)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
        browser.get(path.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def count(self, selector: str) -> int:
        return int(self.run("return document.querySelectorAll(arguments[0]).length", selector))

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0]).textContent", selector))

    def click(self, selector: str) -> None:
        self.run(
            "document.querySelector(arguments[0]).dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))",
            selector,
        )

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """The addresses that were asked for, the page itself and data in it left out."""
        import json

        asked = []
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        return [url for url in asked if not url.startswith(("data:", "file:", "blob:"))]


def written(optimizer: Any, folder: Path, name: str, **source: Any) -> Path:
    found = Source(title=name, method="TreeSearcher", metric="error", time_attr="epoch", **source)
    return write_page(view_of(optimizer, found), folder / f"{name}.html")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def usual(folder: Path) -> Path:
    optimizer = searches.searched()
    node = {trial.id: f"10.0.0.{trial.number % 3}" for trial in optimizer}
    started = {trial.id: 1.7e9 + trial.number for trial in optimizer}
    return written(optimizer, folder, "usual", node=node, started=started, restore="tune.Tuner.restore('x')")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_opens_without_errors_or_requests_and_draws_every_figure(browser, usual, theme, width):
    page = Page(browser, usual, theme, width)
    assert page.errors() == []
    assert page.requests() == []
    for selector, least in {
        "#tree .treenode": 7,
        "#tree .outline": 5,
        "#progress .best": 1,
        "#progress .expected": 1,
        "#progress .band": 1,
        "#branches .slice .expected": 2,
        "#branches .slice .band": 2,
        "#branches .contour > *": 1,
        "#branches .alone": 2,
        "#health .whisker": 20,
        "#health .calibration": 1,
        "#checks .check": 1,
        "#rows tr": 25,
        "#settings dd": 10,
    }.items():
        assert page.count(selector) >= least, selector
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    assert "NaN" not in page.run("return document.getElementById('main').innerHTML")
    assert page.text("#code").startswith("config = {")
    background = page.run("return getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(246, 247, 248)" if theme == "light" else "rgb(15, 20, 24)")


def test_a_click_on_a_branch_filters_the_whole_page_and_escape_ends_it(browser, usual):
    page = Page(browser, usual)
    nodes = page.run("return JSON.parse(document.getElementById('data').textContent).nodes")
    node = next(k for k, entry in enumerate(nodes) if entry["label"] == "knn")
    everything = page.text("#count")
    page.click(f'[data-node="{node}"]')
    assert page.text("#filter-name") == "model=knn"
    assert page.text("#count").startswith(f"{nodes[node]['trials']} trial")
    assert page.text("#count") != everything
    assert set(page.run("return [...document.querySelectorAll('#rows tr td:nth-child(3)')].map((td) => td.textContent)")) == {
        "● model=knn"
    }
    assert page.run("return [...document.querySelectorAll('#branch option')].length") == 1
    assert page.count("#tree .treenode.dim") > 0
    names = page.run("return [...document.querySelectorAll('.slice h3')].map((h) => h.textContent)")
    assert set(names) == {"model.n_neighbors", "model.weights", "scaler"}
    page.run("dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    assert page.text("#count") == everything
    assert page.count("#tree .treenode.dim") == 0
    assert page.errors() == []


def test_the_tree_can_be_used_with_the_keyboard(browser, usual):
    from selenium.webdriver.common.keys import Keys

    page = Page(browser, usual)
    root = browser.find_element("css selector", '[data-node="0"]')
    root.send_keys(Keys.ARROW_RIGHT)
    active = browser.switch_to.active_element
    assert active.get_attribute("data-node") == "1"
    active.send_keys(Keys.ENTER)
    assert page.text("#filter-name").startswith("model=")
    assert browser.switch_to.active_element.get_attribute("data-node") == "1"


def test_the_table_sorts_finds_and_makes_csv(browser, usual):
    page = Page(browser, usual)
    page.click('th[data-column="value"] button')
    shown = page.run("return [...document.querySelectorAll('#rows tr td:nth-child(5)')].map((td) => Number(td.textContent))")
    assert shown == sorted(shown)
    assert page.text('th[data-column="node"] button').startswith("Node")
    page.run("const s = document.getElementById('search'); s.value = 'running'; s.dispatchEvent(new Event('input'))")
    assert page.text("#count").startswith("2 trials")
    page.run("""
        const made = URL.createObjectURL;
        URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return made(blob); };
        document.getElementById('csv').click();
    """)
    time.sleep(0.3)
    lines = page.run("return window.saved").strip().split("\r\n")
    assert lines[0].startswith("number,trial_id,branch,status,error,epoch,seconds,node,config/scaler,config/model")
    assert len(lines) == 3


def test_the_theme_button_turns_the_lights_off(browser, usual):
    page = Page(browser, usual, "light")
    page.click("#theme")
    assert page.run("return document.documentElement.dataset.theme") == "dark"
    assert page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(15, 20, 24)"
    assert page.errors() == []


def test_another_pair_can_be_chosen_for_the_contour(browser, usual):
    page = Page(browser, usual)
    before = page.run("return document.querySelector('#branches .contour').innerHTML")
    page.run("""
        const select = document.querySelector('#branches figure select');
        select.value = [...select.options].map((o) => o.value).find((v) => v !== select.value);
        select.dispatchEvent(new Event('change'));
    """)
    assert page.run("return document.querySelector('#branches .contour').innerHTML") != before
    assert page.errors() == []


def test_names_that_are_html_stay_text(browser, folder):
    space = {EVIL_KEY: Float(0.0, 1.0), "m": Categorical([{"kind": EVIL, "x": Float(0.0, 1.0)}, {"kind": "b"}])}
    optimizer = TreeOptimizer(space, seed=0)
    for k in range(12):
        suggestion = optimizer.ask(f"{EVIL}{k}")
        assert suggestion is not None
        optimizer.tell(suggestion.id, suggestion.config[EVIL_KEY])
    view = view_of(optimizer, Source(title=EVIL, method=EVIL, metric=EVIL, node={f"{EVIL}0": EVIL}))
    page = Page(browser, write_page(view, folder / "evil.html"))
    for node in range(3):
        page.click(f'[data-node="{node}"]')
    time.sleep(0.2)
    assert page.run("return window.hacked === undefined")
    assert page.count("main img, main b i, main script") == 0
    assert page.text("h1") == EVIL
    assert EVIL_KEY in page.text("#rows")
    assert page.errors() == []


def test_seeds_partitions_pools_and_curves_have_their_panels(browser, folder):
    page = Page(browser, written(searches.seeded(), folder, "seeded"))
    assert page.count("#seeds-table tbody tr") > 5
    assert page.errors() == []
    page = Page(browser, written(searches.pooled(), folder, "pooled"))
    assert page.count("#partition-table tbody tr") >= 2
    assert page.count("#pool-table tr") == 10
    assert "20 configurations of the pool are left" in page.text("#pool")
    assert page.errors() == []
    page = Page(browser, written(searches.stopped(), folder, "stopped"))
    assert page.count("#progress .curve") == 24
    assert page.count("#progress .rung") == 2
    assert page.errors() == []


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_search_that_has_just_begun_has_a_page_too(browser, folder, n):
    optimizer = TreeOptimizer(searches.SPACE, seed=0)
    for k in range(n):
        suggestion = optimizer.ask()
        assert suggestion is not None
        if k == 0:
            optimizer.tell(suggestion.id, 0.5)
        else:
            optimizer.fail(suggestion.id)
    page = Page(browser, written(optimizer, folder, f"young{n}"))
    assert page.errors() == []
    assert page.count("#rows tr") == n


def test_ten_thousand_trials_stay_usable(browser, folder):
    path = written(searches.many(10_000), folder, "many")
    assert path.stat().st_size < 1_500_000
    page = Page(browser, path)
    assert page.errors() == []
    assert page.text("#count") == "10,000 trials, page 1 of 400"
    assert page.count("main *") < 6_000  # every dot an element would be ten times that
    page.click('[data-node="1"]')
    assert page.text("#count").startswith("2,514 trials")
    assert page.count("#rows tr") == 25
