"""Text from outside in a report: escaped wherever it stands, printable, without folders, cut to its room."""

import re
from dataclasses import replace

import numpy as np
import pytest
from page_reading import Reading

from sfumato.audits import Finding
from sfumato.privacy import Claim, Evidence, Guarantee, Statement
from sfumato.reports.contact_sheet import Pictures
from sfumato.reports.page import render_report
from sfumato.reports.page_text import shortened, shown
from sfumato.reports.plots import Frontier, Point
from sfumato.reports.release_entry import Entry
from sfumato.utility import Measure

HOSTILE = [
    "<script>window.taken = true</script>",
    "\"><img src=x onerror='window.taken = true'>",
    "{{ 7 * 7 }}{% raw %}",
    "</style></script><script>window.taken = true</script>",
    "'); window.taken = true; ('",
    "\u202eright to left\u2066 and \u05e2\u05d1\u05e8\u05d9\u05ea",
    "one\nline\rafter\u2028another\x00\x1b[31m",
    "half a \ud83d character",
    "W" * 3000,
    "javascript:window.taken = true",
]


@pytest.mark.parametrize("text", HOSTILE, ids=map(str, range(len(HOSTILE))))
def test_hostile_text_stays_text_wherever_it_stands(text):
    image = np.zeros((1, 8, 8))
    statement = Statement(
        text,
        {text: text},
        Claim(text=text, source=text),
        Guarantee.approximate(1.0, 1e-6, theorem=text),
        (Evidence(text, 0.5, 1e-6, 0.99, text, "record", "replace"),),
        (text,),
    )
    finding = Finding(text, text, text, 0.5, 0.5, (0.4, 0.6), 0.99, numbers={text: 1.0}, note=text)
    measures = (Measure(text, 1.0, note=text),)
    entry = Entry(text, statement, (finding,), measures, Pictures(image, image), None, {text: text})
    frontier = Frontier([Point(text, 0.5, 1.0)], text)
    given = {"title": text, "date": text, "frontier": frontier, "reproduce": [text]}
    page = render_report([entry], **given)
    plain = render_report(
        [replace(entry, name="plain")], title="plain", frontier=Frontier([Point("plain", 0.5, 1.0)])
    )
    reading = Reading(page)
    assert page.count("<script") == plain.count("<script") == 1
    assert {tag for tag, *_ in reading.attributes} == {tag for tag, *_ in Reading(plain).attributes}
    assert not any(name.startswith("on") for _, name, _ in reading.attributes)
    assert " ".join(shown(text).split()) in reading.text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u2028\x00\x1b]", page)
    page.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("/home/jo/X.npz", "X.npz"),
        ("-o=/home/jo/X.npz y", "-o=X.npz y"),
        ("'/home/jo smith/X.npz'", "'X.npz'"),
        ("/home/jo", "~"),
        ("~jo/X.npz", "X.npz"),
        ("“/home/jo/X.npz”", "“X.npz”"),
        ("PATH=bin:/home/jo/bin", "PATH=bin:bin"),
        (r"C:\Users\jo\X.npz", "X.npz"),
        (r"\\host\share\X.npz", "X.npz"),
        ("sqlite:////home/jo/budget.db", "sqlite://…/budget.db"),
        ("postgresql://jo:pass@host/db", "postgresql://…/db"),
        ("https://jo:pass@example.org/a/b", "https://example.org/a/b"),
        ("data/X.npz and/or y", "data/X.npz and/or y"),
        ("(2d)!/(2^d d!) and 1 / 2", "(2d)!/(2^d d!) and 1 / 2"),
    ],
)
def test_paths_lose_their_folders_and_nothing_else_changes(text, seen):
    assert shown(text) == seen


@pytest.mark.parametrize(
    ("text", "most", "seen"),
    [
        ("short", 9, "short"),
        ("just nine", 9, "just nine"),
        ("ten letter", 9, "ten lett…"),
        ("数" * 9, 9, "数数数数…"),
        ("W" * 9, 9, "WWWW…"),
    ],
)
def test_labels_are_cut_to_their_room(text, most, seen):
    assert shortened(text, most) == seen
