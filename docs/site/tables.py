#!/usr/bin/env python3
"""Writes the tables that are too long for a page, with every row of bench/results, into a site: they sort and can be searched.

usage: tables.py FOLDER
"""
import html
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "bench")]
import report  # noqa: E402
from networks import gpu_table, table  # noqa: E402

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>{title}</title>
<style>
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 16px; }} table {{ border-collapse: collapse; }}
th, td {{ padding: 2px 8px; border-bottom: 1px solid #8886; text-align: left; }} th {{ position: sticky; top: 0; background: Canvas; }}
th button {{ font: inherit; font-weight: 600; border: 0; background: none; color: inherit; cursor: pointer; padding: 0; }}
</style></head><body>
<h1>{title}</h1><p>{summary}. A click on a heading sorts. <a href="../{back}">What the rows mean</a></p>
<p><input type="search" id="search" placeholder="Find a network" aria-label="Find a network"></p>
<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>
<script>
const body = document.querySelector("tbody"), rows = [...body.rows];
document.querySelectorAll("th button").forEach((button, column) => {{
  let up = false;
  button.onclick = () => {{
    up = !up;
    const value = (row) => row.cells[column].textContent;
    rows.sort((a, b) => (value(a) === "") - (value(b) === "") || (up ? 1 : -1) * (isNaN(value(a)) || isNaN(value(b)) ? value(a).localeCompare(value(b)) : value(a) - value(b)));
    body.append(...rows);
  }};
}});
document.getElementById("search").oninput = (e) => rows.forEach((row) => {{ row.hidden = !row.textContent.toLowerCase().includes(e.target.value.toLowerCase()); }});
</script></body></html>
"""


def page(title, back, summary, columns, rows):
    heads = "".join(f'<th><button type="button">{html.escape(c)}</button></th>' for c in columns)
    lines = "\n".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return PAGE.format(title=html.escape(title), back=back, summary=html.escape(summary), heads=heads, rows=lines)


def main():
    folder = pathlib.Path(sys.argv[1]) / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    rows = json.loads((ROOT / "bench" / "results" / "networks-gpu.json").read_text())["rows"]
    (folder / "networks-gpu.html").write_text(page("Networks on a GPU, row by row", "notes/networks-gpu.html", gpu_table.summary(rows),
                                                   ("library", *gpu_table.COLUMNS, "why"),
                                                   [[r["library"], *gpu_table.cells(r), gpu_table.note(r)] for r in rows]))
    rows = json.loads((ROOT / "bench" / "results" / "networks.json").read_text())["rows"]
    (folder / "networks.html").write_text(page("Networks on a CPU, row by row", "notes/networks.html", table.summary(rows)["text"],
                                               ("library", *table.COLUMNS, "why"),
                                               [[r["library"], *table.cells(r), table.first_line(r["reason"])] for r in rows]))
    for name, suite in report.read_results(ROOT / "bench" / "results").items():
        if name in report.SUITES:
            columns = report.columns(suite)
            (folder / f"{name}.html").write_text(page(f"Suite {name}, case by case", "performance.html", f"Times in µs. {report.provenance(suite)}",
                                                      [heading for heading, _ in columns], [[cell(c) for _, cell in columns] for c in report.ran(suite)]))
        else:
            (headings, *lines), notes = report.split_table(report.TABLES[name](suite))
            (folder / f"{name}.html").write_text(page(f"{name}, row by row", "performance.html", " ".join(notes).strip().rstrip("."), headings, lines))


if __name__ == "__main__":
    main()
