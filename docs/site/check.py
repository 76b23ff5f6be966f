#!/usr/bin/env python3
"""Checks that the pages of a site fetch nothing from elsewhere, and that every link within it leads somewhere.

usage: check.py FOLDER
"""
import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """What a page loads, where it links to, and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[k] for k in ("id", "name") if given.get(k)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in ("index", "search", "next", "prev", "canonical", "genindex"):
            self.links.append(given.get("href", ""))
        else:
            self.loads += [given[k] for k in ("src", "href", "data", "poster") if given.get(k)]


def is_elsewhere(address):
    return bool(urllib.parse.urlsplit(address).netloc) or address.startswith("//")


def complaints(folder):
    pages = {p.resolve(): Page(p.read_text()) for p in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(folder.resolve())
        yield from (f"{name}: loads {address}" for address in page.loads if is_elsewhere(address))
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or is_elsewhere(link):
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{name}: {link} leads nowhere"
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name}: {link}: no such anchor"
    for sheet in folder.rglob("*.css"):
        text = sheet.read_text()
        if "url(http" in text or "url(//" in text or '@import "http' in text:
            yield f"{sheet.relative_to(folder)}: loads from elsewhere"


def main():
    found = sorted(set(complaints(pathlib.Path(sys.argv[1]))))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
