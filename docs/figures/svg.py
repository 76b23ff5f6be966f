"""A page of SVG: rectangles, text, lines, arrows. White background, so that it reads on dark pages too."""
import html

INK, SOFT, FAINT = "#1f2933", "#5f6b7a", "#c9d1da"
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"


class Page:
    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.parts = []

    def rect(self, x, y, w, h, fill="none", stroke="none", radius=3, dash=None, line=1):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{radius}" fill="{fill}" '
                          f'stroke="{stroke}" stroke-width="{line}"{dashes}/>')

    def text(self, x, y, text, size=13, fill=INK, anchor="start", bold=False, italic=False, turn=None):
        style = (' font-weight="bold"' if bold else "") + (' font-style="italic"' if italic else "")
        turned = f' transform="rotate({turn} {x:g} {y:g})"' if turn else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"{style}{turned}>'
                          f'{html.escape(text)}</text>')

    def lines(self, x, y, texts, size=13, step=17, **style):
        for i, text in enumerate(texts):
            self.text(x, y + i * step, text, size, **style)

    def line(self, points, stroke=SOFT, width=1.4, arrow=False, dash=None):
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        end = ' marker-end="url(#arrow)"' if arrow else ""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="{width}"{end}{dashes}/>')

    def box(self, x, y, w, h, fill, label, size=13, ink="#ffffff", stroke="none", bold=False):
        """A rectangle with its label in the middle."""
        self.rect(x, y, w, h, fill, stroke)
        self.text(x + w / 2, y + h / 2 + size * 0.36, label, size, ink, "middle", bold)

    def save(self, path):
        body = "\n".join(self.parts)
        path.write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" font-family="{FONT}" role="img">\n<title>{html.escape(self.title)}</title>\n'
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0,0.6 L7.4,4 L0,7.4 z" fill="{SOFT}"/></marker></defs>\n'
            f'<rect width="{self.width}" height="{self.height}" rx="8" fill="#ffffff"/>\n{body}\n</svg>\n')
