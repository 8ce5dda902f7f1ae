"""The verbs ``learn``, ``publish``, ``federate`` and ``verify``, and the declarations of their options.

An option is declared once: in the signature of its verb or, where it is a parameter of some methods only, in
a table below. The command line derives its options from these declarations, so this module imports nothing
that takes long to load.
"""

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, overload

from sfumato.errors import BadInput
from sfumato.mechanisms import Parameter
from sfumato.privacy import DELTA, FEDERATED, MODELS, PUBLICATIONS

if TYPE_CHECKING:
    from sfumato.ledger import Ledger
    from sfumato.noise import Randomness
    from sfumato.release.federation import FederatedModel, FederationPlan
    from sfumato.release.model_release import Learned
    from sfumato.release.path import Report
    from sfumato.release.publication import Published
    from sfumato.release.release_plan import Plan
    from sfumato.reports import KeyRing, PackVerification, Verification

__all__ = ["federate", "learn", "options_of", "publish", "verify"]

Place = str | os.PathLike[str]
Warn = Callable[[str], None]


@dataclass(frozen=True)
class VerbOption(Parameter):
    """An option of a verb; ``panel`` is the section of the help that lists it."""

    panel: str = "Parameters of some methods"


_privacy, _dataset, _files, _budget, _training, _run = (
    partial(VerbOption, panel=panel)
    for panel in ("Privacy", "Dataset", "Files", "Budget", "Training", "Clients and rounds")
)

Classes = Annotated[
    int | None, _dataset("Number of classes of an .npz, labelled 0 … N−1. It is public.", "N")
]
White = Annotated[
    float | None,
    _dataset(
        "Value of white. Default: 255 for 8 bits, 65535 for 16 bits; required for other types.", "VALUE"
    ),
]
Pictures = Annotated[
    str | None, _dataset("Array of an .npz that holds the images or features. Default: x.", "NAME")
]
Labels = Annotated[str | None, _dataset("Array of an .npz that holds the labels. Default: y.", "NAME")]
PublicNames = Annotated[
    bool,
    _dataset("Declare the names of class folders public and keep them. By default classes are numbered."),
]
ModelFolder = Annotated[Place | None, _files("Folder to write the model to.", "FOLDER")]
TestFile = Annotated[
    Place | None, _files("Held-out records to measure accuracy on. They are not protected.", "FILE")
]
PlanOnly = Annotated[bool, _files("Show the guarantee and its cost; read headers only, write nothing.")]
Dataset = Annotated[str | None, _budget("Dataset whose budget is charged; see sfumato budget.", "NAME")]
Uncharged = Annotated[
    bool, _budget("Charge nothing: the certificate names `dataset` and says that it did not pay.")
]

_LEARNING = {
    "steps": VerbOption("all but compact: Number of training steps.", "N", type=int),
    "clip": VerbOption(
        "all but compact: Clipping norm of the gradient of one record, relative to the norm of features.",
        "NORM",
        type=float,
    ),
    "pace": VerbOption("all but compact: Learning rate of the classifier.", "RATE", type=float),
    "momentum": VerbOption("all but compact: Momentum of the classifier.", "SHARE", type=float),
    "spread": VerbOption(
        "dp-sgd, compact-certified: Standard deviation of the noise in a logit, which sets the learning rate "
        "instead of `pace`.",
        "S",
        type=float,
    ),
    "bandwidth": VerbOption(
        "compact, compact-private: Kernel bandwidth: adaptive, or a multiple of the scale of the features.",
        "H",
        type=float | str,
    ),
    "share": VerbOption(
        "compact, compact-private: Fraction of each class that anchors are taken from.", "γ", type=float
    ),
    "sampling": VerbOption(
        "dp-sgd, compact-private: Sampling probability of a record in one step.", "Q", type=float
    ),
    "epochs": VerbOption("compact, compact-private: Number of epochs.", "N", type=int),
    "batch": VerbOption("compact, compact-private: Batch size.", "N", type=int),
    "rate": VerbOption("compact, compact-private: Learning rate of the contraction.", "RATE", type=float),
    "mode": VerbOption("compact-private: accountant (default) or paper.", "NAME", type=str),
}
_PUBLISHING = {
    "time_budget": VerbOption("Stop training after this time, such as 90s, 20m or 1h30m.", "TIME", type=str),
    "multiplier": VerbOption(
        "vaegan-dp, dpdm: Noise multiplier of one step, instead of `epsilon`.", "σ", type=float
    ),
    "kept": VerbOption("certified: Frequencies kept in each direction. Default: 14.", "K", type=int),
    "parts": VerbOption("certified: Gaussians for each class. Default: chosen by ε.", "K", type=int),
    "embeddings": VerbOption("certified: Fourier features to release as well. Default: 0.", "K", type=int),
    "steps": VerbOption("vaegan-dp, dpdm: Number of training steps.", "N", type=int),
    "rate": VerbOption("vaegan-dp, dpdm: Sampling probability of a record in one step.", "Q", type=float),
    "mode": VerbOption("vaegan-dp: private (default), or paper, which proves nothing.", "NAME", type=str),
    "block": VerbOption("pixelation: Side of a block in pixels. Default: 3.", "B", type=int),
    "radius": VerbOption("blur: Radius in pixels. Default: 1.5.", "PIXELS", type=float),
    "k": VerbOption("k-anonymity: Smallest cluster. Default: 10.", "K", type=int),
    "clusters": VerbOption("k-anonymity: Number of clusters. Default: 1000.", "N", type=int),
    "small": VerbOption("k-anonymity: Smaller clusters are dropped (default) or kept.", "NAME", type=str),
    "latent": VerbOption("curvature, vaegan-dp: Dimensions of the latent space.", "D", type=int),
    "centres": VerbOption("curvature: Number of centres in the latent space.", "N", type=int),
    "strategy": VerbOption(
        "curvature: Sampling strategy: lowest (default), anywhere, highest or linear.", "NAME", type=str
    ),
    "decoder": VerbOption("curvature: Decoder network: dense or conv.", "NAME", type=str),
}
_FEDERATING = {
    "noise": VerbOption("tensor-ldp: Noise distribution: laplace (default) or gaussian.", "NAME", type=str),
    "span": VerbOption("tensor-ldp: Width of the noise. Default: 256.", "Δ", type=float),
    "retain": VerbOption(
        "tensor-ldp: Probability of keeping a component: that of the paper's algorithm (default) or proof.",
        "NAME",
        type=str,
    ),
    "levels": VerbOption("grid-tensor-ldp: Number of levels between the bounds.", "N", type=int),
    "curvature": VerbOption("hessian-clipped: As in its paper, which proves nothing.", "own", type=str),
    "calibration": VerbOption(
        "matrix-variate-gaussian, independent-directional: The noise of their papers.", "paper", type=str
    ),
}
#: Options of each verb that are parameters of some of its methods, by name.
PARAMETERS_OF_METHODS: Mapping[str, Mapping[str, VerbOption]] = {
    "learn": _LEARNING,
    "publish": _PUBLISHING,
    "federate": _FEDERATING,
}


def options_of(verb: Callable[..., Any]) -> dict[str, VerbOption]:
    """Return the options of ``verb``, as its signature and its methods declare them, in that order."""
    found = {}
    for name, one in inspect.signature(verb).parameters.items():
        for declared in getattr(one.annotation, "__metadata__", ()):
            found[name] = replace(declared, name=name, type=get_args(one.annotation)[0], default=one.default)
    methods = PARAMETERS_OF_METHODS[verb.__name__]
    return found | {name: replace(one, name=name) for name, one in methods.items()}


@overload
def learn(source: Place, output: Place, *, plan: Literal[False] = False, **options: Any) -> "Learned": ...
@overload
def learn(source: Place, output: Place | None = None, *, plan: Literal[True], **options: Any) -> "Plan": ...
def learn(
    source: Place,
    output: ModelFolder = None,
    *,
    method: Annotated[
        str,
        _privacy(
            "dp-sgd: differentially private linear classifier. compact-certified: the same on contracted "
            "features. compact, compact-private: as in their paper; they prove nothing.",
            "NAME",
        ),
    ] = "dp-sgd",
    epsilon: Annotated[
        float | None, _privacy("Privacy budget of one record for the whole model.", "ε")
    ] = None,
    delta: Annotated[
        float | None, _privacy(f"Failure probability; it should be below 1/n. Default: {DELTA:g}.", "δ")
    ] = None,
    neighbours: Annotated[
        str | None,
        _privacy(
            "Neighbouring datasets: replace or zero-out. Default: those of the budget, or "
            f"{MODELS.neighbours} without one.",
            "NAME",
        ),
    ] = None,
    classes: Classes = None,
    extractor: Annotated[
        str | None,
        _dataset(
            "Feature extractor for images: scattering, pixels, efficientnet-lite0, mobilenet-v2, "
            "inception-v3, alexnet, vgg16 or a folder with weights. Default: whitened-scattering.",
            "NAME",
        ),
    ] = None,
    reach: Annotated[
        float | None,
        _dataset("Largest norm of a feature vector; longer ones are scaled down. It is public.", "NORM"),
    ] = None,
    top: White = None,
    pictures: Pictures = None,
    labels: Labels = None,
    public_names: PublicNames = False,
    test: TestFile = None,
    report: Annotated[
        Place | None, _files("Write a report of the audit, for the owner of the data only.", "FILE.html")
    ] = None,
    audit: Annotated[
        bool,
        _privacy(
            "Train further models, which are not kept, and attack them; with canaries where something is "
            "proven."
        ),
    ] = True,
    shadows: Annotated[
        int | None,
        _privacy(
            "Number of shadow models for LiRA, RMIA and an attack network; 0 for none. Default: 8, which "
            "take as long as training four models on all records (at most 4,000).",
            "N",
        ),
    ] = None,
    plan: PlanOnly = False,
    dataset: Dataset = None,
    ledger: "Ledger | None" = None,
    uncharged: Uncharged = False,
    keys: "KeyRing | None" = None,
    randomness: "Randomness | None" = None,
    progress: "Report | None" = None,
    warn: Warn | None = None,
    **parameters: Any,
) -> "Learned | Plan":
    """Train a classifier on ``source`` and write it to the folder ``output``.

    ``source`` is an .npz with images or features and labels, or a folder with one sub-folder of images for
    each class. ``parameters`` are those of the method, such as ``steps``. ``classes``, ``top`` and ``reach``
    are declared, never read off the data. ``dataset`` is charged in ``ledger`` before the fit. With ``plan``
    only headers are read, and the guarantee and its cost are returned. ``progress`` is called with each stage
    and the share of it that is done, ``warn`` with each warning, before anything is read.
    """
    from sfumato.release.model_release import learn as run
    from sfumato.release.model_release import open_learning
    from sfumato.release.path import Payment

    if parameters.get("spread") is not None and parameters.get("pace") is not None:
        raise BadInput(
            "`spread` and `pace` both set the learning rate; give one of them.", parameter="spread"
        )
    if shadows is not None and not audit:
        raise BadInput("`shadows` is for an audit; leave it out with `audit=False`.", parameter="shadows")
    target = _target(output, plan, "learn needs `output`, a folder to write the model to")
    opened = open_learning(
        source,
        method,
        {"epsilon": epsilon, "delta": delta, "neighbours": neighbours, **parameters},
        pictures=pictures,
        labels=labels,
        classes=classes,
        top=top,
        reach=reach,
        extractor=extractor,
        public_names=public_names,
        audited=audit,
        shadows=shadows,
        randomness=randomness,
        payment=Payment(dataset, ledger, uncharged=uncharged),
    )
    if plan:
        return opened.plan()
    if warn is not None:
        for sentence in opened.warnings:
            warn(sentence)
    return run(opened, target, test=test, page=report, keys=keys, report=progress)


@overload
def publish(source: Place, output: Place, *, plan: Literal[False] = False, **options: Any) -> "Published": ...
@overload
def publish(source: Place, output: Place | None = None, *, plan: Literal[True], **options: Any) -> "Plan": ...
def publish(
    source: Place,
    output: Annotated[Place | None, _files("File (.npz) or folder to write to.", "OUT")] = None,
    *,
    method: Annotated[
        str,
        _privacy(
            "certified: proves ε for each record. vaegan-dp, dpdm: trained with noise. curvature, "
            "pixelation, blur, k-anonymity: prove nothing.",
            "NAME",
        ),
    ] = "certified",
    epsilon: Annotated[
        float | None, _privacy("Privacy budget of one record for everything published.", "ε")
    ] = None,
    delta: Annotated[float | None, _privacy(f"Failure probability. Default: {DELTA:g}.", "δ")] = None,
    neighbours: Annotated[
        str | None,
        _privacy(
            "certified: Neighbouring datasets: add/remove, zero-out or replace. Default: those of the "
            f"budget, or {PUBLICATIONS.neighbours} without one.",
            "NAME",
        ),
    ] = None,
    classes: Classes = None,
    top: White = None,
    pictures: Pictures = None,
    labels: Labels = None,
    public_names: PublicNames = False,
    records: Annotated[
        int | None, _dataset("Number of images to publish. Default: about as many as SOURCE holds.", "N")
    ] = None,
    checkpoint: Annotated[
        Place | None,
        VerbOption("curvature: File that keeps the state of training, to resume it; private.", "FILE"),
    ] = None,
    report: Annotated[
        Place | None,
        _files("Write a report with originals beside what was published; keep it private.", "FILE.html"),
    ] = None,
    audit: Annotated[
        bool, _privacy("Leave a few random records out of the fit, and measure what is shown of the others.")
    ] = True,
    plan: PlanOnly = False,
    dataset: Dataset = None,
    ledger: "Ledger | None" = None,
    uncharged: Uncharged = False,
    overwrite: Annotated[
        bool, _files("Replace an existing file; a folder has to be removed by hand.")
    ] = False,
    keys: "KeyRing | None" = None,
    randomness: "Randomness | None" = None,
    progress: "Report | None" = None,
    **parameters: Any,
) -> "Published | Plan":
    """Publish images in place of those of ``source``, as the .npz or the folder ``output``.

    ``source`` is an .npz with images and labels, or a folder with one sub-folder of images for each class.
    ``parameters`` are those of the method, such as ``parts``; ``time_budget`` is in seconds, or a text such
    as ``20m``. The other options are as in :func:`learn`.
    """
    from sfumato.release.path import Payment
    from sfumato.release.publication import open_publication
    from sfumato.release.publication import publish as run

    target = _target(output, plan, "publish needs `output`, an .npz file or a folder to write to")
    opened = open_publication(
        source,
        method,
        {
            "epsilon": epsilon,
            "delta": delta,
            "neighbours": neighbours,
            "checkpoint": checkpoint,
            **parameters,
        },
        pictures=pictures,
        labels=labels,
        classes=classes,
        top=top,
        public_names=public_names,
        audited=audit,
        randomness=randomness,
        payment=Payment(dataset, ledger, uncharged=uncharged),
    )
    if plan:
        return opened.plan()
    return run(
        opened,
        target,
        records=records,
        page=report,
        checkpoint=checkpoint,
        overwrite=overwrite,
        keys=keys,
        report=progress,
    )


@overload
def federate(
    source: Place, output: Place, *, plan: Literal[False] = False, **options: Any
) -> "FederatedModel": ...
@overload
def federate(
    source: Place, output: Place | None = None, *, plan: Literal[True], **options: Any
) -> "FederationPlan": ...
def federate(
    source: Place,
    output: ModelFolder = None,
    *,
    clients: Annotated[
        int, _run("Number of clients; record i goes to client 1 + i mod N. It is public.", "N")
    ] = 3,
    rounds: Annotated[int, _run("Number of rounds.", "N")] = 10,
    engine: Annotated[
        str,
        _run(
            "rounds: in this process. grpc: one process for each client. simulation: Flower on Ray. "
            "processes: a Flower SuperLink, and a SuperNode for each client.",
            "NAME",
        ),
    ] = "rounds",
    wait: Annotated[
        float,
        _run("Timeout of a client's answer in each round, for the engines grpc and processes.", "SECONDS"),
    ] = 600.0,
    mechanism: Annotated[
        str,
        _privacy(
            "Mechanism of the clients: gaussian, laplace, grid-tensor-ldp, priv-unit, priv-unit-g, "
            "repeated-priv-unit-g, duchi, hybrid, piecewise, layer-adaptive (LLAGP), hessian-clipped "
            "(DPHSGD), matrix-variate-gaussian, independent-directional, tensor-ldp (as in its paper) or "
            "none.",
            "NAME",
        ),
    ] = "gaussian",
    epsilon: Annotated[
        float | None,
        _privacy("Privacy budget of one client over all rounds; for tensor-ldp, in each round.", "ε"),
    ] = None,
    delta: Annotated[float, _privacy("Failure probability of one client over all rounds.", "δ")] = DELTA,
    clip: Annotated[
        float | None,
        _privacy(
            "Clipping norm of a client's update: L2, or L1 for laplace; for tensor-ldp the largest "
            "parameter.",
            "NORM",
        ),
    ] = None,
    limit: Annotated[
        float | None, _privacy("Largest entry of an update, for mechanisms with bounds on entries.", "VALUE")
    ] = None,
    neighbours: Annotated[
        str | None, _privacy("Neighbouring runs: replace a client, or zero-out (it learned nothing).", "NAME")
    ] = None,
    central: Annotated[
        bool, _privacy("Add the noise at a trusted server instead of at the clients.")
    ] = False,
    sample: Annotated[
        float, _privacy("Sampling probability of a client in each round, with `central`.", "Q")
    ] = 1.0,
    model: Annotated[str, _training("linear, mlp, or cnn (for images).", "NAME")] = "linear",
    epochs: Annotated[int, _training("Epochs over a client's records in each round.", "N")] = 1,
    batch: Annotated[int, _training("Batch size.", "N")] = 64,
    rate: Annotated[float, _training("Learning rate.", "RATE")] = 0.05,
    seed: Annotated[
        int,
        _training(
            "Seed of the initial model and of the order of records, not of the noise. It is public.", "N"
        ),
    ] = 0,
    classes: Classes = None,
    extractor: Annotated[
        str | None, _dataset("Feature extractor for images. Default: pixels.", "NAME")
    ] = None,
    top: White = None,
    pictures: Pictures = None,
    labels: Labels = None,
    public_names: PublicNames = False,
    test: TestFile = None,
    plan: PlanOnly = False,
    dataset: Annotated[
        str | None, _budget("Charge the budgets NAME/client-1, NAME/client-2, …", "NAME")
    ] = None,
    ledger: str | None = None,
    uncharged: Uncharged = False,
    keys: "KeyRing | None" = None,
    progress: "Report | None" = None,
    warn: Warn | None = None,
    **parameters: Any,
) -> "FederatedModel | FederationPlan":
    """Let ``clients`` train a classifier on their shares of ``source``; write it to the folder ``output``.

    Records are dealt to the clients in turn. ``epsilon`` is the budget of one client over all ``rounds``;
    ``parameters`` are those of the mechanism, such as ``levels``. ``ledger`` is a URL, in which ``{client}``
    may stand, since each client opens the ledger that it pays from; the budgets ``dataset``/client-1 and so
    on are charged. The other options are those of :func:`learn`.
    """
    from sfumato.release.client_budget import Waiting
    from sfumato.release.federated_release import federate as run
    from sfumato.release.federated_release import open_federation, plan_federation

    target = _target(output, plan, "federate needs `output`, a folder to write the model to")
    terms = {
        "clients": clients,
        "rounds": rounds,
        "mechanism": mechanism,
        "epsilon": epsilon,
        "delta": delta,
        "clip": clip,
        "limit": limit,
        "neighbours": neighbours or ("zero-out" if sample < 1.0 else FEDERATED.neighbours),
        "central": central,
        "sample": sample,
        "options": {name: value for name, value in parameters.items() if value is not None},
        "model": model,
        "epochs": epochs,
        "batch": batch,
        "rate": rate,
        "seed": seed,
    }
    opened = open_federation(
        source,
        terms,
        pictures=pictures,
        labels=labels,
        classes=classes,
        top=top,
        extractor=extractor,
        public_names=public_names,
        dataset=dataset,
        ledger=ledger,
        uncharged=uncharged,
    )
    planned = plan_federation(opened, None if plan else target)
    if plan:
        return planned
    if warn is not None:
        for sentence in (planned.cost(), *planned.warnings):
            warn(sentence)
    waiting = Waiting(timeout=wait)
    return run(opened, target, engine=engine, waiting=waiting, test=test, keys=keys, report=progress)


def verify(
    file: Place, *, ledger: "Ledger | str | None" = None, keys: "KeyRing | None" = None
) -> "Verification | PackVerification":
    """Check the release, released folder or pack ``file`` against its certificate; also in an object store.

    The row of the ledger is checked if ``ledger`` or its URL is given, the signature against the keys that
    ``keys`` trusts (default: in the home folder). ``holds`` of the result is False if one check fails.
    """
    from sfumato.ledger import Ledger
    from sfumato.release.manifest import local_copy, verify_folder
    from sfumato.reports import MANIFEST, KeyRing, PackVerification, verify_pack
    from sfumato.reports import verify as verify_file

    ring = keys or KeyRing()
    with local_copy(file) as place:
        if place.is_dir() and not (place / MANIFEST).exists():
            return PackVerification(place, tuple(verify_pack(place, ring)))
        run = verify_folder if place.is_dir() else verify_file
        if not isinstance(ledger, str):
            return run(place, ring, ledger)
        with Ledger(ledger, make=False) as book:
            return run(place, ring, book)


def _target(output: Place | None, plan: bool, missing: str) -> Path:
    """Return ``output`` as a path; refuse that there is none, unless only a plan is wanted."""
    if output is None and not plan:
        raise BadInput(f"{missing}.", parameter="output")
    return Path(output or "")
