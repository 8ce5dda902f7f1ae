"""Reads a page of a report as a browser would, and fails where it is not well formed."""

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br"}
SHAPES = {"line", "path", "circle", "rect", "stop"}


class Reading(HTMLParser):
    """What a browser would see: elements that close, attributes, headings, visible text."""

    def __init__(self, page):
        super().__init__()
        self.open, self.ids, self.headings, self.attributes, self.said = [], [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, *pair) for pair in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in SHAPES, tag
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.said.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.said).split()).replace("\u00a0", " ")
