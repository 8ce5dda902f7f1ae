"""``sfumato paper`` draws what it says and says what it drew."""

import json

import pytest

from sfumato.privacy import gaussian_mu


def test_the_command_is_listed_and_asks_for_a_paper(called):
    assert "Regenerate tables and figures of a paper" in called("--help").out
    assert called("paper").sentence == "paper needs NAME, as in sfumato paper multimedia-dp --figure 2."


def test_figure_two_is_drawn_and_its_numbers_are_told(command, folder):
    ran = command("paper", "multimedia-dp", "--figure", "2", "-o", "new/figures")
    assert (ran.code, ran.err) == (0, "")
    assert "written: new/figures/multimedia-dp-figure-2.png" in ran.out
    assert all(name in ran.out for name in ("basic", "advanced", "Rényi", "PLD"))
    picture = (folder / "new" / "figures" / "multimedia-dp-figure-2.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(picture[at : at + 4], "big") for at in (16, 20))
    assert width > 900
    assert height > 500


def test_the_four_methods_stand_in_the_order_of_their_tightness(called, folder):
    result = json.loads(called("paper", "multimedia-dp", "--figure", "2", "--json").out)
    numbers = result["numbers"]
    counts, epsilon = numbers["compositions"], numbers["epsilon"]
    assert (counts[0], counts[-1]) == (1, 1000)
    assert list(epsilon) == ["basic", "advanced", "Rényi", "PLD"]
    for k, basic, advanced, renyi, pld in zip(counts, *epsilon.values(), strict=True):
        assert basic == pytest.approx(0.1 * k)
        assert pld <= renyi <= min(basic, advanced)
    # k Gaussians are one of √k times the μ.
    last = gaussian_mu(epsilon["PLD"][-1], numbers["delta"])
    assert last == pytest.approx(gaussian_mu(epsilon["PLD"][0], numbers["delta"]) * 1000**0.5, rel=1e-6)


def test_federated_training_is_drawn_without_files_and_beside_the_rest_of_the_page(
    called, folder, monkeypatch
):
    pytest.importorskip("torch")
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    (folder / "tldp.md").write_text("# TLDP beside the paper\n\n## Table 5\n", "utf-8")
    result = json.loads(called("paper", "tldp", "--figure", "3", "--quick", "--json").out)
    assert result["files"] == ["tldp.md", "tldp-figure-3.png"]
    rows = result["numbers"]["figures"]["3"]["comparison"]
    assert all(row["proven_epsilon"] is None for row in rows if row["tldp"] == "TLDP-L")
    assert all(row["sound_proven_epsilon"] <= row["compared_at_epsilon"] for row in rows)
    page = (folder / "tldp.md").read_text("utf-8")
    assert page.startswith(
        "# TLDP beside the paper\n\n## Table 5\n\n## Figure 3: type III, federated training"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["nothing-dp", "--figure", "2"],
            "there is no paper 'nothing-dp' here; choose one of compactdp, curvature-publication, "
            "multimedia-dp, tadp-rme, tldp.",
        ),
        (["multimedia-dp", "--table", "3"], "these tables are made: 1, 2, 4, 5; give one with --table."),
        (["multimedia-dp", "--figure", "7"], "these figures are drawn: 2"),
        (["multimedia-dp", "--figure", "two"], "--figure: 'two' is not a whole number;"),
        (["multimedia-dp", "--figure", "2", "-o", "file"], "file cannot be used: File exists."),
    ],
)
def test_what_cannot_be_drawn_is_refused(called, folder, words, said):
    (folder / "file").write_text("")
    assert said in called("paper", *words).sentence
