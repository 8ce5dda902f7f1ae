"""Addresses of those who ask through a proxy: believed only where a proxy of ours says so."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.serve.auth.addresses import Network, address_of

__all__ = ["address_behind"]


def address_behind(peer: str | None, forwarded: str | None, trusted: Sequence[Network]) -> str | None:
    """Whom a request comes from: the ``peer``, unless it is a ``trusted`` proxy.

    Proxies append whom they were asked by to the header X-Forwarded-For, ``forwarded``; so it is read from
    its end, and the first address that is no trusted proxy is the one. What stands before it anybody could
    have written, and where a part is no address, the proxy that wrote it is the last that is known.
    """
    known = peer
    parts = [] if forwarded is None else forwarded.split(",")
    while _is_in(known, trusted) and parts:
        part = _bare(parts.pop().strip())
        if address_of(part) is None:
            break
        known = part
    return known


def _is_in(text: str | None, networks: Sequence[Network]) -> bool:
    address = address_of(text)
    return address is not None and any(address in network for network in networks)


def _bare(text: str) -> str:
    """An address without the port that some proxies add, as in 192.0.2.1:4711 or [2001:db8::1]:4711."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text
