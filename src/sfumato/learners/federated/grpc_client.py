"""A client of Flower's gRPC service: it says who it is, trains with an app, and answers nothing else."""

from __future__ import annotations

import logging

from flwr.app import Context
from flwr.client import Client
from flwr.clientapp import ClientApp
from flwr.common import (
    Code,
    EvaluateIns,
    EvaluateRes,
    FitIns,
    FitRes,
    GetParametersIns,
    GetParametersRes,
    GetPropertiesIns,
    GetPropertiesRes,
    Parameters,
    Status,
)

from sfumato.errors import BadInput
from sfumato.learners.federated.credentials import CHALLENGE, Credential
from sfumato.learners.federated.grpc_records import asked_of, refusing, replied

__all__ = ["GrpcClient"]

_UNANSWERED = "only training is answered: nothing in another reply would be protected."
_FAILED = "the client's app failed; why is not told, since that may speak of its records."
_log = logging.getLogger(__name__)


class GrpcClient(Client):
    """Answers what it is asked to train with ``app``, for ``flwr.client.start_client``.

    ``context`` is the client's own and kept over all rounds, so that each of them is answered once. An app
    that raises is answered for with one fixed sentence, since its exception may speak of records. With a
    ``credential`` the client proves its name to a server that asks for it (see ``grpc_admission``); every
    other kind of question is refused.
    """

    def __init__(self, app: ClientApp, context: Context, credential: Credential | None = None) -> None:
        self._app, self._context, self._credential = app, context, credential

    def fit(self, ins: FitIns) -> FitRes:
        """The reply of the app, or why there is none."""
        try:
            message = asked_of(ins)
        except BadInput as error:
            return refusing(str(error))
        try:
            return replied(self._app(message, self._context))
        except Exception:
            _log.exception("the app failed, and the server is told that it did")
            return refusing(_FAILED)

    def evaluate(self, ins: EvaluateIns) -> EvaluateRes:
        """Nothing but a refusal: what the model does on the client's records is not protected."""
        return EvaluateRes(Status(Code.EVALUATE_NOT_IMPLEMENTED, _UNANSWERED), 0.0, 0, {})

    def get_parameters(self, ins: GetParametersIns) -> GetParametersRes:
        """Nothing but a refusal: parameters leave as a reply to training alone."""
        return GetParametersRes(
            Status(Code.GET_PARAMETERS_NOT_IMPLEMENTED, _UNANSWERED), Parameters([], "numpy.ndarray")
        )

    def get_properties(self, ins: GetPropertiesIns) -> GetPropertiesRes:
        """The client's public name, proven by its credential; a refusal of every other question."""
        challenge = ins.config.get(CHALLENGE)
        if self._credential is not None and isinstance(challenge, str):
            return GetPropertiesRes(Status(Code.OK, ""), {**self._credential.answer(challenge)})
        return GetPropertiesRes(Status(Code.GET_PROPERTIES_NOT_IMPLEMENTED, _UNANSWERED), {})
