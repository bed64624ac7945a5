"""The page in a real browser: quiet, offline, as wide as the screen, dark where wanted, printable."""

import base64

import pytest
from oracles import report_inputs
from oracles.chromium import chromium, console_errors, requested_urls

from cplsr.report.page import write_report

pytestmark = pytest.mark.browser
HOSTILE = "<script>window.hacked=1</script>"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    classes = ("a_class_whose_name_has_no_place_to_break_and_goes_on_and_on_for_ever", HOSTILE, *"cdefg")
    report_inputs.write_everything(folder / "all", targets=("landcover", "leaf"), classes=classes)
    many = tuple(f"class number {n}" for n in range(38))
    four = ("ChestX", "ISIC", "EuroSAT", "CropDisease")
    report_inputs.results(four, classes=many, backbone=report_inputs.VIT_S16).write(folder / "all" / "paper.json")
    report_inputs.write_ablation(folder / "all" / "wide", four, shots=(1, 5))
    write_report([folder / "all"], folder / "report.html", title="A report")
    return (folder / "report.html").as_uri()


def background(driver):
    return driver.execute_script("return getComputedStyle(document.body).backgroundColor")


def test_on_a_telephone(address):
    with chromium(375, 800) as driver:
        driver.get(address)
        assert driver.execute_script("return document.documentElement.scrollWidth") == 375
        assert driver.execute_script("return window.innerWidth") == 375
        assert driver.execute_script("return window.hacked") is None
        assert console_errors(driver) == []
        assert requested_urls(driver) == [address]
        loaded = driver.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        assert [name for name in loaded if not name.startswith("data:")] == []


def test_dark_where_wanted_and_sorted_by_a_click(address):
    with chromium(1280, 900, dark=True) as driver:
        driver.get(address)
        dark = background(driver)
        drawn = driver.execute_script("return [...document.images].every((image) => image.naturalWidth > 0)")
        assert drawn
        light = [{"name": "prefers-color-scheme", "value": "light"}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": light})
        assert background(driver) != dark
        column = (
            "const table = [...document.querySelectorAll('table')].find((t) => t.tBodies[0].rows.length > 3);"
            "const head = table.tHead.rows[0].cells[4]; head.click(); if (arguments[0]) head.click();"
            "return [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[4].textContent));"
        )
        up = driver.execute_script(column, False)
        assert up == sorted(up)
        assert up[0] < up[-1]
        assert driver.execute_script("return document.querySelectorAll('th[aria-sort=ascending]').length") == 1


def test_tables_fit_and_a_link_unfolds_its_section(address):
    wide = "return [...document.querySelectorAll('.table')].filter((t) => t.scrollWidth > t.clientWidth + 1).length"
    with chromium(1280, 900) as driver:
        driver.get(address)
        assert driver.execute_script(wide) == 0
        assert driver.execute_script("return document.querySelectorAll('details[open]').length") == 0
        driver.execute_script("document.querySelector('nav a[href=\"#calibration\"]').click()")
        assert driver.execute_script("return document.querySelector('#calibration').closest('details').open")
        driver.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true })")
        assert driver.execute_script("return document.querySelectorAll('.table').length") > 10
        assert driver.execute_script(wide) == 0


def test_printed(address):
    from selenium.webdriver.support.ui import WebDriverWait

    with chromium(1280, 900) as driver:
        driver.get(address)
        shown = "return document.querySelector('#calibration').checkVisibility()"
        assert not driver.execute_script(shown)
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        on_paper = shown.replace("()", "({contentVisibilityAuto: true})")
        WebDriverWait(driver, 30).until(lambda waited: waited.execute_script(on_paper))  # the medium changes by and by
        pdf = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") > 3
