#!/usr/bin/env python3
"""Takes docs/explore.png: the page of the heatmap U-Net in headless Chromium.

usage: docs/figures/explore.py COMMAND
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import browser  # noqa: E402


def main():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "unet.html"
        subprocess.run([sys.argv[1], "explain", ROOT / "models" / "heatmap_unet", "--device", "cuda", "--gpu", "H200", "--html", file],
                       check=True, stdout=subprocess.DEVNULL)
        page = browser.Page(file, size=(1300, 860))
        page.click("#launches tbody tr", 3)
        page.picture(ROOT / "docs" / "explore.png")
        page.close()


if __name__ == "__main__":
    main()
