"""Which faults are waited out, for how long, and what is said of the others."""

import errno
import pickle
import time

import pytest

from sfumato.errors import BadInput
from sfumato.io.retry import Fault, Interrupted, RetryPolicy, StartOver, fault_of

QUICK = RetryPolicy(attempts=5, first=0.001, longest=0.002)
SECRET = "hush-hush"


class Answered(Exception):
    """As botocore tells of an answer that is an error."""

    def __init__(self, code, status):
        super().__init__(f"the answer quotes {SECRET}")
        self.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}


class Wrapping(Exception):
    """As botocore wraps what its HTTP client met."""

    def __init__(self, error):
        super().__init__(SECRET)
        self.kwargs = {"error": error, "endpoint_url": SECRET}


class EndpointConnectionError(Wrapping):
    pass


class HTTPClientError(Wrapping):
    pass


class NoCredentialsError(Exception):
    pass


PASSING = [
    TimeoutError(SECRET),
    ConnectionResetError(SECRET),
    BrokenPipeError(SECRET),
    OSError(errno.EBUSY, SECRET),
    Answered("SlowDown", 503),
    Answered("InternalError", 500),
    Answered("RequestTimeout", 400),
    Answered("", 502),
    Answered("TooManyRequests", 429),
    EndpointConnectionError(ConnectionResetError(SECRET)),
    HTTPClientError(TimeoutError(SECRET)),
    Interrupted("it is half-written"),
]
LASTING = [
    (FileNotFoundError(SECRET), "no such object"),
    (PermissionError(SECRET), "access is denied"),
    (Answered("AccessDenied", 403), "access is denied"),
    (Answered("", 401), "access is denied"),
    (Answered("NoSuchBucket", 404), "no such bucket; make it first"),
    (Answered("InvalidAccessKeyId", 403), r"does not accept the credentials \(InvalidAccessKeyId\)"),
    (NoCredentialsError(SECRET), "no usable credentials"),
    (EndpointConnectionError(ConnectionRefusedError(SECRET)), "endpoint cannot be reached"),
    (HTTPClientError(ValueError(SECRET)), "settings of its storage are not usable"),
    (NotImplementedError(SECRET), "does not offer it"),
    (OSError(errno.ENOSPC, "No space left on device"), r"refused \(No space left on device\)"),
    (OSError(errno.EIO, f"token={SECRET}"), r"refused \(OSError\)"),
    (RuntimeError(SECRET), r"refused \(RuntimeError\)"),
    (Answered("NotImplemented", 501), r"refused \(NotImplemented\)"),
]


def failing(error, times):
    """An action that raises ``error`` so many times, and the count of its calls."""
    calls = []

    def action():
        calls.append(time.monotonic())
        if len(calls) <= times:
            raise error
        return "done"

    return action, calls


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_what_passes_is_waited_out(error):
    action, calls = failing(error, 4)
    assert QUICK.call(action, "s3://bucket/a", "read") == "done"
    assert len(calls) == 5
    action, calls = failing(error, 1000)
    with pytest.raises(BadInput, match=r"^s3://bucket/a cannot be read: .*\.$") as caught:
        QUICK.call(action, "s3://bucket/a", "read")
    assert len(calls) == 5
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("error", "reason"), LASTING, ids=lambda value: type(value).__name__)
def test_what_does_not_pass_is_told_at_once(error, reason):
    action, calls = failing(error, 1000)
    with pytest.raises(BadInput, match=rf"^s3://bucket/a cannot be written: .*{reason}.*\.$") as caught:
        QUICK.call(action, "s3://bucket/a", "written")
    assert len(calls) == 1
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None  # a traceback shows neither


def test_waits_grow_with_jitter_up_to_a_bound():
    policy = RetryPolicy(first=1.0, longest=5.0)
    for attempt, most in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (50, 5.0)]:
        waits = [policy.wait(attempt) for _ in range(200)]
        assert all(most / 2 <= wait <= most for wait in waits)
        assert len(set(waits)) > 100


def test_the_usual_patience_ends_after_half_a_minute():
    """Attempts that fail at once: the waits between them, at their longest, fit in the total."""
    usual = RetryPolicy()
    longest = sum(min(usual.longest, usual.first * 2.0**n) for n in range(usual.attempts - 1))
    assert longest <= usual.total == 30.0


def test_no_attempt_begins_when_the_time_is_up():
    action, calls = failing(TimeoutError(), 1000)
    policy = RetryPolicy(attempts=1000, first=0.02, longest=0.02, total=0.2)
    with pytest.raises(BadInput, match="timed out; try later"):
        policy.call(action, "s3://bucket/a", "read")
    # Without the limit it would take twenty seconds; a busy machine may hold up the last attempt.
    assert calls[-1] - calls[0] <= 2.0
    assert 5 <= len(calls) <= 21


def test_what_was_waited_for_in_vain_is_not_waited_for_again():
    action, calls = failing(TimeoutError(), 1000)
    with pytest.raises(BadInput, match="timed out"):
        QUICK.call(lambda: QUICK.call(action, "s3://b/a", "read"), "s3://b/a", "read")
    assert len(calls) == QUICK.attempts


def test_what_must_begin_again_goes_through():
    action, calls = failing(StartOver(), 1000)
    with pytest.raises(StartOver):
        QUICK.call(action, "s3://b/a", "read")
    assert len(calls) == 1


def test_an_interrupt_is_not_waited_out():
    action, calls = failing(KeyboardInterrupt(), 1000)
    with pytest.raises(KeyboardInterrupt):
        QUICK.call(action, "s3://b/a", "read")
    assert len(calls) == 1


def test_other_refusals_keep_their_sentence_and_faults_travel():
    assert str(fault_of(BadInput("already said."), "s3://b/a", "read")) == "already said."
    fault = fault_of(TimeoutError(), "s3://b/a", "read")
    assert isinstance(fault, Fault)
    assert str(pickle.loads(pickle.dumps(fault))) == str(fault)
