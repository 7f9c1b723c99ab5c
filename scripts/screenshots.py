"""Pictures of the report for the documentation, made from the demo's log by a browser.

make screenshots; needs Chromium (or OFFPOLICY_CHROMIUM), Playwright and matplotlib (for Pillow).
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from offpolicy.experiments.demo import run_demo

FOLDER = Path(__file__).parent.parent / "docs" / "img"
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip
SHOTS = {
    "report-light": (820, "light", 1500),
    "report-dark": (820, "dark", 1500),
    "report-phone": (390, "light", 1500),
}
"""Width in pixels, theme, and how much of the page's height is shown."""


def main() -> None:
    demo = run_demo()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        page_file = Path(folder) / "report.html"
        page_file.write_text(demo.report().files["report.html"], encoding="utf-8")
        found = os.environ.get("OFFPOLICY_CHROMIUM") or shutil.which("chromium")
        browser = play.chromium.launch(executable_path=found, args=list(QUIET))
        for name, (width, scheme, height) in SHOTS.items():
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=scheme
            )
            page.goto(page_file.as_uri())
            picture = Image.open(io.BytesIO(page.screenshot()))
            few = picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=64)
            few.save(FOLDER / f"{name}.png", optimize=True)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
