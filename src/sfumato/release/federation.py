"""The public terms of a federated run, its plan and its result.

Every process of a run reads the terms as JSON: model, noise and rounds.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import BadInput, quoted
from sfumato.learners.federated import (
    Central,
    Federated,
    FederatedClassifier,
    Protection,
    calibrate,
    client_names,
    initial_parameters,
    make_central,
    make_protection,
    protection_name,
    round_guarantee,
)
from sfumato.ledger import Filter
from sfumato.mechanisms import positive
from sfumato.noise import Seeded
from sfumato.privacy import (
    FEDERATED,
    TEXT_WIDTH,
    Claim,
    Guarantee,
    Statement,
    format_delta,
    format_upper,
    printable,
)
from sfumato.release.client_budget import ClientCost
from sfumato.release.path import Protected

if TYPE_CHECKING:
    from sfumato.learners.federated import Arrays
    from sfumato.release.model_evidence import Accuracy

__all__ = ["Federation"]

_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Federation:
    """What everybody agrees on before a run.

    ``epsilon`` and ``delta`` are the promise to one client over all ``rounds``; ``strength`` is what one
    round may have of it (see :meth:`settled`): its ε, or one over the noise multiplier with a central
    Gaussian. In the modes of the TLDP paper, whose claim is no bound, ``epsilon`` is the paper's: that of
    each round. ``seed`` is that of the public initial parameters and of the order of records;
    ``noise_seed`` makes a run that can be repeated, for experiments.
    """

    clients: int
    rounds: int
    mechanism: str
    epsilon: float | None
    delta: float
    clip: float | None = None
    limit: float | None = None
    neighbours: str = FEDERATED.neighbours
    central: bool = False
    sample: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)
    model: str = "linear"
    shape: tuple[int, ...] = (1,)
    classes: int = 2
    factor: float = 1.0
    epochs: int = 1
    batch: int = 64
    rate: float = 0.05
    seed: int = 0
    noise_seed: int | None = None
    strength: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "mechanism", protection_name(self.mechanism))
        object.__setattr__(self, "shape", tuple(self.shape))
        for name in ("clients", "rounds", "epochs", "batch"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadInput(
                    f"`{name}` was {value!r}", parameter=name, accepted="a whole number, 1 or more"
                )
        if self.mechanism != "none" and self.epsilon is None:
            raise BadInput(
                f"{self.mechanism} needs `epsilon`, the budget of one client over all rounds; "
                "`mechanism='none'` adds no noise and promises nothing.",
                parameter="epsilon",
            )
        positive("rate", self.rate)
        if self.epsilon is not None:
            positive("epsilon", self.epsilon)
        if not 0.0 <= self.delta < 1.0:
            raise BadInput(
                f"`delta` was {self.delta!r}", parameter="delta", accepted="a number from 0 to below 1"
            )
        if not self.central and self.sample != 1.0:
            raise BadInput(
                "`sample` needs `central=True`: it is the server that samples clients and adds the noise.",
                parameter="sample",
            )
        if self.central and self.mechanism not in ("gaussian", "tensor-ldp"):
            raise BadInput(
                f"`central` is for gaussian and tensor-ldp, not for {self.mechanism}: the others are drawn "
                "by each client.",
                parameter="central",
            )
        if self.sample != 1.0 and self.mechanism != "gaussian":
            raise BadInput(
                f"`sample` is for gaussian, not for {self.mechanism}, of which no amplification is proven.",
                parameter="sample",
            )
        if self.central and self.mechanism == "gaussian" and self.options:
            named = list(self.options)
            raise BadInput(
                f"a central gaussian takes no {', '.join(map(quoted, named))}.", parameter=named[0]
            )
        if self.mechanism == "none" and (self.options or self.epsilon is not None):
            raise BadInput(
                "`mechanism='none'` adds no noise: leave out `epsilon` and options of mechanisms.",
                parameter="epsilon" if self.epsilon is not None else next(iter(self.options)),
            )

    @property
    def paper(self) -> bool:
        """Whether ε is the paper's own, of each round, since nothing could be calibrated."""
        return self.mechanism == "tensor-ldp" or self.options.get("curvature") == "own"

    @cached_property
    def names(self) -> list[str]:
        """The public names of the clients."""
        return client_names(self.clients)

    @property
    def randomness(self) -> Seeded | None:
        """None, for the operating system's, unless a seed was given."""
        return None if self.noise_seed is None else Seeded(self.noise_seed)

    def classifier(self) -> FederatedClassifier:
        """The model that is trained, not yet fitted."""
        return FederatedClassifier(self.model, self.shape, self.classes, self.factor)

    @cached_property
    def initial(self) -> Arrays:
        """The parameters of the first round."""
        return initial_parameters(self.classifier().make, self.seed)

    def settled(self, *, budget: bool = False) -> Federation:
        """These terms with the strength of one round.

        With ``budget`` all rounds also fit, one after another, an unspent budget of (ε, δ) in a ledger, whose
        filter also holds for choices made along the way and therefore admits a little less.
        """
        if self.mechanism == "none":
            return self
        assert self.epsilon is not None  # checked above
        if self.paper:
            return replace(self, strength=self.epsilon)
        rule = Filter.for_budget(self.epsilon, self.delta) if budget else None

        def fits(one: Guarantee) -> bool:
            return rule is None or rule.fits(tuple(self.rounds * price for price in rule.price(one)))

        strength = calibrate(
            lambda tried: replace(self, strength=tried).round_guarantee(),
            rounds=self.rounds,
            epsilon=self.epsilon,
            delta=self.delta,
            also=fits,
        )
        return replace(self, strength=strength)

    def _mechanism(self) -> dict[str, Any]:
        """The parameters that a mechanism is made of, but for its strength."""
        given = {name: getattr(self, name) for name in ("delta", "clip", "limit", "neighbours")}
        return given | dict(self.options)

    def protection(self) -> Protection:
        """What each client does before it sends."""
        if self.central or self.mechanism == "none":
            return make_protection("none")
        assert self.strength is not None, "terms are settled before they are used"
        return make_protection(self.mechanism, epsilon=self.strength, **self._mechanism())

    def at_server(self) -> Central | None:
        """What the server does, if it is the server that adds the noise."""
        if not self.central:
            return None
        assert self.strength is not None, "terms are settled before they are used"
        return make_central(self.mechanism, strength=self.strength, sample=self.sample, **self._mechanism())

    def round_guarantee(self) -> Guarantee:
        """What is proven of one client in one round."""
        return round_guarantee(self.protection(), self.at_server(), self.initial, self.clients)

    def claim(self) -> Claim | None:
        """What the authors say of one round."""
        return (self.at_server() or self.protection()).claim()

    def digest(self) -> str:
        """What tells these terms from all others; an owner agrees to terms by it."""
        return hashlib.sha256(self.to_json().encode("utf-8")).hexdigest()

    def to_json(self) -> str:
        """What :meth:`from_json` reads back."""
        return json.dumps(asdict(self) | {"format": _FORMAT}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Federation:
        """Read what :meth:`to_json` wrote."""
        try:
            read = json.loads(text)
            if read.pop("format") != _FORMAT:
                raise BadInput(f"these terms of a federated run are of another format than {_FORMAT}.")
            return cls(**read)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, BadInput):
                raise
            raise BadInput("these are no terms of a federated run.") from None


@dataclass(frozen=True)
class FederationPlan:
    """What a run would promise and cost; nothing but names and headers was read."""

    source: Path
    statement: Statement
    one_round: Guarantee
    costs: tuple[ClientCost, ...]
    warnings: tuple[str, ...]
    what: str
    terms: Federation

    def cost(self) -> str:
        """Return what each client will pay, as one sentence."""
        if self.one_round.proves_nothing:
            return f"nothing is proven of any client: {self.one_round.theorem}"
        whole = self.statement.proven
        at = format_delta(whole.at_delta)
        if not math.isfinite(whole.epsilon()):
            return f"no finite ε is proven of any client at δ = {at}"
        return (
            f"each client spends ε = {format_upper(whole.epsilon())} at δ = {at} over all rounds, and "
            f"ε = {format_upper(self.one_round.epsilon(whole.at_delta))} in each"
        )

    def text(self, width: int = TEXT_WIDTH) -> str:
        """Return the plan for people, its statement in lines of at most ``width`` characters."""
        rounds = self.statement.parameters["rounds"]
        admitted = [
            f"  {printable(cost.dataset)}: admits {cost.admitted} of {rounds} rounds; what still fits after "
            f"the first one: {cost.preview.balance.gaussian_left}"
            for cost in self.costs
            if cost.preview is not None
        ]
        return "\n".join(
            [
                self.statement.table(width),
                "",
                f"Would train: {self.what}, from {printable(self.source)}",
                f"Cost: {self.cost()}",
                *admitted,
                *(f"Note: {warning}" for warning in self.warnings),
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "source": str(self.source),
            "what": self.what,
            "statement": self.statement.to_dict(),
            "round": self.one_round.to_dict(),
            "clients": [cost.to_dict() for cost in self.costs],
            "warnings": [*self.warnings, *self.statement.warnings],
            "terms": self.terms.to_json(),
            "digest": self.terms.digest(),
        }


@dataclass(frozen=True)
class FederatedModel:
    """What a run left behind in the folder ``output``, and how it went.

    ``folders`` says which class is of which folder, for the owner alone.
    """

    output: Path
    certified: Protected
    statement: Statement
    made: Federated
    warnings: tuple[str, ...]
    accuracy: Accuracy | None = None
    spends: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)

    def text(self, width: int = TEXT_WIDTH) -> str:
        """Return the result for people, its statement in lines of at most ``width`` characters."""
        from sfumato.release.labelled_release import describe_classes  # clients need not load it

        made = self.made
        rounds = f"{made.rounds} of {self.statement.parameters['rounds']} rounds"
        lines = [
            self.statement.table(width),
            "",
            f"Model: {printable(self.output)} ({self.certified.what}, after {rounds})",
            f"Certificate: {printable(self.certified.certificate_file)}",
            *describe_classes(self.folders),
        ]
        if made.stopped is not None:
            lines.append(f"Stopped: {printable(made.stopped)}")
        lines += [f"Not used: {printable(item)}" for item in made.refused]
        lines += [
            f"Paid by {printable(client)}: {len(rows)} rounds"
            for client, rows in sorted(self.spends.items())
            if rows
        ]
        return "\n".join([*lines, *(() if self.accuracy is None else (str(self.accuracy),))])

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return self.certified.to_dict() | {
            "output": str(self.output),
            "certified": str(self.certified.output),
            "statement": self.statement.to_dict(),
            "class_folders": dict(self.folders),
            "rounds": self.made.rounds,
            "paid": dict(self.made.paid),
            "spends": {name: list(rows) for name, rows in self.spends.items()},
            "refused": [str(item) for item in self.made.refused],
            "stopped": self.made.stopped,
            "warnings": [*self.warnings, *self.statement.warnings],
            "accuracy": None if self.accuracy is None else self.accuracy.to_dict(),
        }
