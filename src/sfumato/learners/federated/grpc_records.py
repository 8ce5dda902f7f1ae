"""Messages of our apps as Flower's gRPC service carries them, and back: used by the server and its clients.

The service knows parameters (the bytes of ``numpy.save``, never pickled), a configuration of single values,
a status and metrics. So layers keep their order, types and shapes, and lose their names; a reply is its one
record of arrays; and an error is a status that is not OK, with its reason.
"""

from __future__ import annotations

import uuid

import numpy as np
from flwr.app import (
    DEFAULT_TTL,
    ArrayRecord,
    ConfigRecord,
    Error,
    Message,
    Metadata,
    MetricRecord,
    RecordDict,
)
from flwr.app.message import make_message
from flwr.common import (
    Code,
    FitIns,
    FitRes,
    Parameters,
    Scalar,
    Status,
    bytes_to_ndarray,
    ndarrays_to_parameters,
    now,
)
from flwr.common.constant import ErrorCode

from sfumato.errors import BadInput
from sfumato.learners.federated.flower_records import ARRAYS, CONFIG, METRICS, record_of

__all__ = ["asked_of", "asking", "refusing", "replied", "reply_of"]

_NUMPY = "numpy.ndarray"
_NUMBERS = "fiub"
_SCALARS = (bool, int, float, str, bytes)


def asking(message: Message) -> FitIns:
    """A message of type train as the service carries it to a client."""
    kind = message.metadata.message_type
    if kind != "train":
        raise BadInput(f"messages of type {kind} are not sent: clients answer those of type train alone.")
    config: dict[str, Scalar] = {}
    for record in message.content.config_records.values():
        for key, value in record.items():
            if not isinstance(value, _SCALARS):
                raise BadInput(f"{key!r} in the configuration is a list: single values are carried alone.")
            config[key] = value
    return FitIns(_parameters(message), config)


def asked_of(ins: FitIns) -> Message:
    """What arrived at a client, as the message that its app is to answer."""
    content = RecordDict({ARRAYS: _record(ins.parameters), CONFIG: ConfigRecord({**ins.config})})
    metadata = Metadata(
        run_id=0,
        message_id=uuid.uuid4().hex,
        src_node_id=0,
        dst_node_id=0,
        reply_to_message_id="",
        group_id="",
        created_at=now().timestamp(),
        ttl=DEFAULT_TTL,
        message_type="train",
    )
    return make_message(metadata, content)


def replied(reply: Message) -> FitRes:
    """The reply of an app as the service carries it to the server: parameters and nothing else."""
    if reply.has_error():
        return refusing(reply.error.reason or "the client gave no reason.")
    return FitRes(Status(Code.OK, ""), _parameters(reply), 1, {})


def refusing(why: str) -> FitRes:
    """An answer without parameters that says ``why``."""
    return FitRes(Status(Code.FIT_NOT_IMPLEMENTED, why), Parameters([], _NUMPY), 0, {})


def reply_of(res: FitRes, message: Message) -> Message:
    """What arrived at the server, as a reply to ``message``; what cannot be read is a ``BadInput``."""
    if res.status.code != Code.OK:
        return Message(Error(ErrorCode.MOD_FAILED_PRECONDITION, res.status.message), reply_to=message)
    content = RecordDict({ARRAYS: _record(res.parameters), METRICS: MetricRecord({"num-examples": 1})})
    return Message(content, reply_to=message)


def _parameters(message: Message) -> Parameters:
    records = list(message.content.array_records.values())
    if len(records) != 1:
        raise BadInput(f"a message holds {len(records)} records of arrays: one is carried.")
    return ndarrays_to_parameters(records[0].to_numpy_ndarrays())


def _record(parameters: Parameters) -> ArrayRecord:
    if parameters.tensor_type != _NUMPY:
        raise BadInput(f"parameters came as {parameters.tensor_type!r}: {_NUMPY!r} is needed.")
    arrays = []
    for number, tensor in enumerate(parameters.tensors, 1):
        try:
            array = bytes_to_ndarray(tensor)
        except Exception:  # NumPy's reader has many ways to say that bytes are no array
            raise BadInput(f"the bytes of layer {number} are no array that can be read.") from None
        if not isinstance(array, np.ndarray) or array.dtype.kind not in _NUMBERS:
            raise BadInput(f"the bytes of layer {number} are no array of numbers.")
        arrays.append(array)
    return record_of(arrays)
