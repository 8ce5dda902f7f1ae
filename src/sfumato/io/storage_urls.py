"""URLs of storage: what counts as one, and names that cannot lead out of the place they are put in."""

from __future__ import annotations

import re

from sfumato.errors import BadInput

__all__ = ["checked_name", "checked_url", "is_remote", "scheme_of", "shown"]

# Two letters at least: C:// is a drive.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def is_remote(text: str) -> bool:
    """Whether ``text`` is a URL such as ``s3://bucket/folder``; a path or a Windows drive is not."""
    return _SCHEME.match(text) is not None


def scheme_of(url: str) -> str:
    """The scheme of a URL in small letters: ``s3`` of ``s3://bucket``."""
    found = _SCHEME.match(url)
    if found is None:
        raise BadInput(f"{shown(url)} is not a URL; one like s3://bucket/folder is accepted.")
    return found[1].lower()


def checked_url(url: str) -> str:
    """``url`` without slashes at its end; anything that may hold a secret or climb out is refused.

    A URL goes into messages, manifests and other processes, so that it must not carry credentials: neither
    before an ``@`` nor in a query. A refusal of such a URL does not repeat it.
    """
    scheme, rest = scheme_of(url), url.partition("://")[2].rstrip("/")
    place, _, path = rest.partition("/")
    if "@" in place:
        raise BadInput(
            f"a URL of {scheme}:// holds credentials before an @; leave them out, and set them in the"
            " environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or in ~/.aws/credentials."
        )
    if "?" in rest and "=" in rest.partition("?")[2]:
        raise BadInput(
            f"a URL of {scheme}:// has a query after a ?, where signatures and tokens stand; give the URL"
            " without it, and credentials in the environment."
        )
    if scheme in ("file", "local") and (place or not path):
        raise BadInput(f"{shown(url)} does not name an absolute path; write {scheme}:///folder/name.")
    if not rest and scheme != "memory":
        raise BadInput(f"{shown(url)} names no bucket; one like {scheme}://bucket/folder is accepted.")
    for part in (place, path):
        if part:
            checked_name(part, where=f"{scheme}://")
    return f"{scheme}://{rest}"


def checked_name(name: str, *, where: str) -> str:
    """``name``, of one part or of several between slashes, if it stays below the place it is joined to.

    Refused are ``.`` and ``..``, backslashes, control characters and empty parts, also a slash at either end.
    """
    parts = name.split("/")
    if "" in parts:
        wrong = "has an empty part"
    elif "." in parts or ".." in parts:
        wrong = "has a part . or .., which could lead elsewhere"
    elif "\\" in name:
        wrong = "has a backslash"
    elif _CONTROL.search(name):
        wrong = "has a control character"
    else:
        return name
    raise BadInput(f"the name {shown(name)} in {where} {wrong}; rename the object.")


def shown(text: str) -> str:
    """``text`` for a message: what a terminal would obey rather than show is spelled out."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text) or "''"
