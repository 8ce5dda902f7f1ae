"""What the documents show can be run as it stands, and the links between them lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_python_of_the_readme_runs_and_prints_what_it_says(folder):
    (code,) = blocks(ROOT / "README.md", "python")
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    said = re.search(r"m\.guarantee\(\) +# (.*)", code)
    assert said is not None
    assert repr(names["m"].guarantee()) == said.group(1)
    assert names["z"].statement.proven == names["r"].statement.proven
    assert names["e"].statement.consistent()
    assert (folder / "report.html").exists()


def test_the_python_of_the_audit_page_runs(folder):
    import numpy as np

    import sfumato as sf

    (code,) = blocks(ROOT / "docs" / "explanation-audit.md", "python")
    names: dict[str, object] = {"sf": sf, "np": np}
    exec(compile(code, "explanation-audit.md", "exec"), names)
    assert isinstance(names["e"], sf.Evidence)
    assert (folder / "report.html").exists()


def test_the_python_of_the_guarantees_page_runs():
    import sfumato as sf

    (code,) = blocks(ROOT / "docs" / "explanation-guarantees.md", "python")
    names: dict[str, object] = {"sf": sf}
    exec(compile(code, "explanation-guarantees.md", "exec"), names)
    assert names["g"].epsilon(1e-6) == pytest.approx(1.0, rel=1e-9)


def test_the_tutorial_can_be_followed(command, folder):
    page = ROOT / "docs" / "tutorial-release-a-table.md"
    (folder / "people.csv").write_text(blocks(page, "csv")[0])
    (folder / "people.toml").write_text(blocks(page, "toml")[0])
    lines = [line[2:] for block in blocks(page, "console") for line in block.splitlines()]
    assert len(lines) == 4
    for line in lines:
        ran = command(*shlex.split(line)[1:], SFUMATO_HOME=str(folder / "home"))
        assert ran.code == 0, ran.err
    header, *rows = (folder / "released.csv").read_text().splitlines()
    assert header == "age,sex,smoker"
    assert len(rows) == 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
