"""Tables with a row for each class: as many texts as columns, escaped like all others."""

from sfumato.privacy import Guarantee, Statement
from sfumato.reports import Entry
from sfumato.reports.page import render_report
from sfumato.reports.utility_section import ClassTable

STATEMENT = Statement("m", {}, None, Guarantee.nothing("none"))


def test_a_table_of_classes_is_shown_and_its_texts_are_harmless():
    table = ClassTable("leakage", "What leaks.", ("Class", "AUC"), [("<b>cats</b>", "0.51"), ("dogs", "0.7")])
    page = render_report([Entry("model", STATEMENT, classes=[table])])
    assert 'href="#classes"' in page
    assert "What leaks." in page
    assert "&lt;b&gt;cats" in page
    assert "<b>cats" not in page
    assert 'id="classes"' not in render_report([Entry("model", STATEMENT)])
