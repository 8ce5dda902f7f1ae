"""Signature Version 4: the examples that Amazon publishes, and what is refused before anybody is believed."""

from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from sfumato.serve.proxy.s3_protocol import (
    EMPTY,
    UNSIGNED,
    Refused,
    Request,
    canonical_request,
    query_pairs,
    signature,
    signed_of,
)

# The key, the bucket and the time of the examples in "Signature Calculations for the Authorization Header"
# and "Authenticating Requests: Using Query Parameters" of Amazon's S3 reference.
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
HOST, TIME = "examplebucket.s3.amazonaws.com", "20130524T000000Z"
SCOPE = "20130524/us-east-1/s3/aws4_request"
COMMON = {"host": HOST, "x-amz-content-sha256": EMPTY, "x-amz-date": TIME}
OWN_KEY = "0123456789abcdef"


@pytest.mark.parametrize(
    ("path", "query", "headers", "expected"),
    [
        (
            b"/test.txt",
            b"",
            {"range": "bytes=0-9"},
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (b"/", b"lifecycle", {}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        (
            b"/",
            b"max-keys=2&prefix=J",
            {},
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)
def test_published_examples_of_signed_headers(path, query, headers, expected):
    given = COMMON | headers
    canonical = canonical_request("GET", path, query_pairs(query), given, sorted(given), EMPTY)
    assert signature(SECRET, TIME, SCOPE, canonical) == expected


def test_the_published_example_of_a_signed_url():
    query = query_pairs(
        b"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3"
        b"%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    )
    canonical = canonical_request("GET", b"/test.txt", query, {"host": HOST}, ["host"], UNSIGNED)
    expected = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    assert signature(SECRET, TIME, SCOPE, canonical) == expected


@pytest.mark.parametrize("path", ["/s3/b/a b+c.npy", "/s3/b/ä/ü.npy", "/s3/b/x~-_.%.npy", "/s3/b/(1)=&.npy"])
def test_botocore_agrees_about_paths_below_a_prefix(path):
    from urllib.parse import quote

    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    raw = quote(path, safe="/~")
    request = AWSRequest(method="GET", url=f"http://localhost:1{raw}?prefix=a%20b&list-type=2")
    S3SigV4Auth(Credentials(OWN_KEY, SECRET), "s3", "eu-west-1").add_auth(request)
    headers = {name.lower(): value for name, value in request.headers.items()} | {"host": "localhost:1"}
    came = Request("GET", raw.encode(), b"prefix=a%20b&list-type=2", headers)
    found = signed_of(came)
    assert found.key_id == OWN_KEY
    assert found.matches(came, SECRET)
    assert not found.matches(came, SECRET + "x")
    for other in (
        Request("HEAD", came.raw_path, came.raw_query, headers),
        Request("GET", b"/s3" + came.raw_path, came.raw_query, headers),
        Request("GET", came.raw_path, b"prefix=a%20c&list-type=2", headers),
        Request("GET", came.raw_path, came.raw_query, headers | {"host": "localhost:2"}),
    ):
        assert not signed_of(other).matches(other, SECRET)


GOOD = (
    f"AWS4-HMAC-SHA256 Credential={OWN_KEY}/20130524/us-east-1/s3/aws4_request, "
    f"SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={'0' * 64}"
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1"),
        ("AWS4-HMAC-SHA256", "Bearer"),
        (OWN_KEY, "AKIAIOSFODNN7EXAMPLE"),
        ("/s3/", "/sts/"),
        ("20130524", "20130525"),
        ("aws4_request", "aws4"),
        ("host;", ""),
        (";x-amz-date", ""),
        ("x-amz-content-sha256;", ""),
        ("host;x-amz-content-sha256", "x-amz-content-sha256;host"),
        ("host;", "authority;host;"),
        ("0" * 64, "0" * 63),
        ("0" * 64, "A" * 64),
    ],
)
def test_malformed_signatures_are_refused_before_they_are_compared(old, new):
    headers = COMMON | {"authorization": GOOD}
    assert signed_of(Request("GET", b"/s3/b", b"", headers)) is not None
    wrong = Request("GET", b"/s3/b", b"", headers | {"authorization": GOOD.replace(old, new)})
    with pytest.raises(Refused) as refused:
        signed_of(wrong)
    assert refused.value.code == "InvalidRequest"


def presigned(**changed):
    given = {
        "Algorithm": "AWS4-HMAC-SHA256",
        "Credential": f"{OWN_KEY}/20130524/us-east-1/s3/aws4_request",
        "Date": TIME,
        "Expires": "60",
        "SignedHeaders": "host",
        "Signature": "0" * 64,
    } | changed
    query = "&".join(f"X-Amz-{name}={value}" for name, value in given.items() if value is not None)
    return Request("GET", b"/s3/b/k.npy", query.encode(), {"host": "localhost"})


def test_a_signed_url_is_read_and_ends_at_its_time():
    found, start = signed_of(presigned()), datetime(2013, 5, 24, tzinfo=UTC)
    assert (found.key_id, found.seconds, found.payload) == (OWN_KEY, 60, UNSIGNED)
    assert all(name != "X-Amz-Signature" for name, _ in found.query)
    found.require_recent(start + timedelta(seconds=60))
    with pytest.raises(Refused, match="expired"):
        found.require_recent(start + timedelta(seconds=61))
    with pytest.raises(Refused, match="future"):
        found.require_recent(start - timedelta(minutes=16))


@pytest.mark.parametrize(
    "changed",
    [
        {"Expires": "0"},
        {"Expires": "604801"},
        {"Expires": "-1"},
        {"Expires": "٦٠"},
        {"Expires": None},
        {"Date": None},
        {"Date": "20130524T250000Z"},
        {"SignedHeaders": "range"},
        {"Security-Token": "x"},
        {"Algorithm": "none"},
        {"Signature": "f" * 65},
    ],
)
def test_malformed_urls_are_refused(changed):
    with pytest.raises(Refused):
        signed_of(presigned(**changed))


def test_a_request_is_signed_once():
    both = presigned()
    with pytest.raises(Refused):
        signed_of(Request(both.method, both.raw_path, both.raw_query, COMMON | {"authorization": GOOD}))
    assert signed_of(Request("GET", b"/s3", b"", COMMON)) is None
    with pytest.raises(Refused, match="version 2"):
        signed_of(Request("GET", b"/s3", b"AWSAccessKeyId=x&Signature=y&Expires=1", COMMON))


@pytest.mark.parametrize("minutes", [-16, 16])
def test_old_and_future_requests_are_refused(minutes):
    found = signed_of(Request("GET", b"/s3/b", b"", COMMON | {"authorization": GOOD}))
    now = datetime(2013, 5, 24, tzinfo=UTC)
    found.require_recent(now + timedelta(minutes=minutes * 14 / 16))
    with pytest.raises(Refused) as refused:
        found.require_recent(now + timedelta(minutes=minutes))
    assert refused.value.code == "RequestTimeTooSkewed"
