"""report.html of 1,000 nodes in a real Chromium: what a person sees first, and the filter; needs Debian's chromium, no lab."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.long.drawings import Browser

NODES, CAUSES = 1000, 4
WIDTH, HEIGHT = 1280, 800
SIZE = f"--window-size={WIDTH},{HEIGHT}"

MEASURE = """<script>
const bottoms = [...document.querySelectorAll("#causes tbody tr")].map(row => row.getBoundingClientRect().bottom);
document.body.dataset.measured = JSON.stringify({bottoms, height: document.documentElement.scrollHeight,
  wide: document.documentElement.scrollWidth > innerWidth});
</script>"""


@pytest.fixture(scope="module")
def page(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a site with 39 broken nodes."""
    folder = tmp_path_factory.mktemp("site")
    words = [str(NODES), "--broken", "--tier", "nodes,cluster", "--keep", str(folder)]
    subprocess.run(
        [sys.executable, str(root / "scripts" / "bench-suite-scale"), *words], check=False, timeout=300
    )
    return folder / str(NODES) / "reports" / "report.html"


def test_all_causes_are_on_the_first_screen(
    page: Path, browser: Browser, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    copy = tmp_path / "measured.html"
    text = re.sub(r"<meta http-equiv[^>]+>", "", page.read_text())
    copy.write_text(text.replace("</body>", f"{MEASURE}</body>"))
    seen = re.search(r'data-measured="([^"]+)"', browser(copy.as_uri(), SIZE, "--dump-dom"))
    assert seen is not None
    found = json.loads(html.unescape(seen[1]))
    assert len(found["bottoms"]) == CAUSES
    assert max(found["bottoms"]) <= HEIGHT
    assert not found["wide"]
    browser(page.as_uri(), SIZE, f"--screenshot={page.parent / 'first-screen.png'}")
    assert (page.parent / "first-screen.png").stat().st_size > 10_000
    record_property(
        "page",
        f"{page.stat().st_size / 1000:.0f} kB, causes end at {max(found['bottoms']):.0f} of {HEIGHT} px",
    )


@pytest.mark.parametrize(
    ("asked", "rows", "said"),
    [
        (
            "gpu-00100",
            5,
            "gpu-00100: 35 checks passed, model h100-sxm, driver 570.211.01, kernel 6.1.0, group rack_05",
        ),
        (
            "gpu-00000",
            0,
            "gpu-00000: 40 checks passed, model h100-sxm, driver 580.178.04, kernel 6.1.0, group rack_00",
        ),
        ("nodes.fabric", 37, ""),
        ("no%20such%20words", 0, ""),
    ],
    ids=["broken node", "good node", "check", "nothing"],
)
def test_the_link_of_a_node_shows_what_is_known_of_it(
    page: Path, browser: Browser, asked: str, rows: int, said: str
) -> None:
    """The policy lets the page's own script run."""
    dom = browser(f"{page.as_uri()}#find={asked}", SIZE, "--dump-dom")
    table = dom.partition('<table id="checks">')[2]
    assert len(re.findall(r'<tr data-outcome="\w+">', table)) == rows
    one = re.search(r'<p id="one" class="note"([^>]*)>(.*?)</p>', dom)
    assert one is not None
    assert (one[2], "hidden" in one[1]) == (said, not said)
    assert '<p id="filter">' in dom
