"""Noise and commitments depend on what is asked for: not on the door, the engine or the place of a file."""

import numpy as np

import sfumato as sf
from sfumato.release.engines import LocalEngine
from sfumato.reports import KeyRing

WORDS = (
    "--epsilon",
    1,
    "--delta",
    1e-6,
    "--clip",
    1.0,
    "--dataset",
    "d",
    "--request",
    "r",
    "--data-version",
    "1",
)


def test_python_and_the_command_line_give_the_same_bytes_and_the_same_row(folder, called):
    rows = np.random.default_rng(1).uniform(-0.5, 0.5, (40, 3))
    for place in ("here", "there/deeper"):
        (folder / place / "in").mkdir(parents=True)
        for number in (1, 2):
            np.save(folder / place / "in" / f"{number}.npy", rows * number)
    purposes = []
    for place, workers in (("here", 1), ("there/deeper", 2)):
        noise = sf.Keyed(KeyRing().noise_secret(), dataset="d", version="1", release="r")
        mechanism = sf.Gaussian(epsilon=1.0, delta=1e-6, clip=1.0, randomness=noise)
        with sf.Ledger(f"sqlite:///{folder}/{workers}.db") as ledger:
            ledger.open("d", epsilon=8, delta=1e-4)
            source, output = folder / place / "in", folder / place / "out"
            engine = LocalEngine(workers)
            sf.protect(source, output, mechanism, dataset="d", ledger=ledger, request="r", engine=engine)
            purposes.append(ledger.history("d")[-1].purpose)
    budget = f"sqlite:///{folder}/3.db"
    assert called("budget", "open", "d", "--epsilon", 8, "--delta", 1e-4, "--ledger", budget).code == 0
    assert (
        called(
            "protect", "here/in", "-o", "cli/out", *WORDS, "--mechanism", "gaussian", "--ledger", budget
        ).code
        == 0
    )
    with sf.Ledger(budget) as ledger:
        purposes.append(ledger.history("d")[-1].purpose)
    assert purposes[0] == purposes[1] == purposes[2]
    for file in sorted(path.name for path in (folder / "here" / "out").glob("*.npy")):
        one, two, three = (
            (folder / way / "out" / file).read_bytes() for way in ("here", "there/deeper", "cli")
        )
        assert one == two == three
