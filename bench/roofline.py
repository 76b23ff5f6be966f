"""The roofline picture of the GPU suites: arithmetic a second over arithmetic a byte, and the peaks measured in the same runs.

S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model for Multicore Architectures", CACM 52(4), 2009.
Bytes are those that must move: each operand and result once.
"""
import math
from xml.sax.saxutils import escape

COLOURS = {
    "backward": "#b5651d",
    "conv": "#1f5fa8",
    "block": "#2a7f62",
    "untuned": "#7cb342",
    "drawn": "#9e6b00",
    "drawn_products": "#8e44ad",
    "epilogue": "#b3541e",
    "gemm": "#7a3fa0",
    "swiglu": "#5d6d1e",
    "rows": "#37474f",
    "wide": "#00695c",
    "nchw": "#6d4c41",
    "breadth": "#8a7a1a",
    "groups": "#c2185b",
    "depthwise": "#00838f",
    "evt": "#455a64",
}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 820, 520, 64, 24, 56, 52


def points(suites, rivals):
    """(suite, case's name, flop a byte, TFLOP/s of Unisono, TFLOP/s of its best rival or None)"""
    for name, suite in suites.items():
        for c in suite["cases"]:
            if "error" in c or not c.get("bytes"):
                continue
            best = min(rivals(c).values(), default=None)
            yield name, c["name"], c["flop"] / c["bytes"], c["flop"] / c["unisono_us"] / 1e6, c["flop"] / best / 1e6 if best else None


class Axis:
    """Logarithmic, from a power of two to a power of two."""

    def __init__(self, values, start, end):
        self.low, self.high = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
        self.start, self.end = start, end

    def at(self, value):
        return self.start + (self.end - self.start) * (math.log2(value) - self.low) / max(self.high - self.low, 1)

    def ticks(self):
        return [2.0**i for i in range(self.low, self.high + 1)]


def svg(suites, rivals):
    """A picture of all suites that have ceilings; None if there is nothing to show."""
    suites = {n: s for n, s in suites.items() if s.get("ceilings")}
    shown = list(points(suites, rivals))
    if not shown:
        return None
    tflops = max(s["ceilings"]["matmul_tflops"] for s in suites.values())
    tbps = max(s["ceilings"]["copy_tbps"] for s in suites.values())
    ridge = tflops / tbps
    x = Axis([p[2] for p in shown] + [ridge], LEFT, WIDTH - RIGHT)
    y = Axis([v for p in shown for v in p[3:] if v] + [tflops], HEIGHT - BOTTOM, TOP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
           '<rect width="100%" height="100%" fill="white"/>',
           '<text x="10" y="18" font-size="13" font-weight="bold">Roofline: what each kernel reaches, and what the machine allows</text>',
           f'<text x="10" y="34" fill="#555">{escape(next(iter(suites.values()))["gpu"])}; full: Unisono, ring: the best rival that does the same work, a line between the two</text>']
    for t in x.ticks():
        out.append(f'<line x1="{x.at(t):.1f}" x2="{x.at(t):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#eee"/>'
                   f'<text x="{x.at(t):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{t:g}</text>')
    for t in y.ticks():
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.at(t):.1f}" y2="{y.at(t):.1f}" stroke="#eee"/>'
                   f'<text x="{LEFT - 6}" y="{y.at(t) + 4:.1f}" text-anchor="end">{t:g}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">FLOP a byte</text>')
    out.append(f'<text x="16" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 16 {HEIGHT / 2})">TFLOP/s</text>')
    left = max(2.0**x.low, 2.0**y.low / tbps)  # where the slope enters the picture
    corners = [(left, left * tbps), (ridge, tflops), (2.0**x.high, tflops)]
    out.append('<polyline fill="none" stroke="#333" stroke-width="1.5" points="' + " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in corners) + '"/>')
    out.append(f'<text x="{WIDTH - RIGHT}" y="{y.at(tflops) - 6:.1f}" text-anchor="end">{tflops:.0f} TFLOP/s, {tbps:.2f} TB/s: both measured</text>')
    for suite, name, intensity, mine, best in shown:
        a, b, colour = x.at(intensity), y.at(mine), COLOURS[suite]
        title = f"<title>{escape(suite)} {escape(name)}: {mine:.0f} TFLOP/s" + (f", best rival {best:.0f}" if best else "") + "</title>"
        if best:
            out.append(f'<line x1="{a:.1f}" x2="{a:.1f}" y1="{b:.1f}" y2="{y.at(best):.1f}" stroke="{colour}" stroke-opacity="0.5"/>'
                       f'<circle cx="{a:.1f}" cy="{y.at(best):.1f}" r="3.5" fill="white" stroke="{colour}"/>')
        out.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}">{title}</circle>')
    for i, suite in enumerate(suites):
        out.append(f'<circle cx="{WIDTH - RIGHT - 80}" cy="{HEIGHT - BOTTOM - 76 + 16 * i}" r="3.5" fill="{COLOURS[suite]}"/><text x="{WIDTH - RIGHT - 70}" y="{HEIGHT - BOTTOM - 72 + 16 * i}">{escape(suite)}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"
