"""How many certificates are verified in a second, envelope, signature and statement."""

from __future__ import annotations

import sfumato as sf
from sfumato.reports import Certificate, SigningKey
from timing import Row, interleaved

COUNT = 500


def measure() -> list[Row]:
    key = SigningKey.new()
    statement = sf.Gaussian(epsilon=1.0, delta=1e-6, clip=1.0).statement()
    envelope = Certificate("out.npz", "ab" * 32, statement, 1000, 20, "clinic", None, sf.__version__).signed(
        key
    )
    keys = {key.public.id: key.public}
    name = f"{COUNT} certificates, over 2,000 a second"
    seconds = interleaved({name: lambda: [Certificate.read(envelope, keys) for _ in range(COUNT)]}, rounds=5)[
        name
    ]
    return [Row(name, f"{COUNT / seconds:,.0f} a second", COUNT / seconds / 2000.0, at_least=1.0)]
