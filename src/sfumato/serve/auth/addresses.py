"""Network addresses of those who ask, each in one form however it was written."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

__all__ = ["Address", "Network", "address_of", "network_of", "site_of"]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# An IPv4 address as a socket for both families writes it, ::ffff:192.0.2.1.
_MAPPED = IPv6Network("::ffff:0:0/96")
_SITE_BITS = 64


def address_of(text: str | None) -> Address | None:
    """The address that ``text`` spells, if it spells one; an IPv4 address inside IPv6 is the IPv4 address."""
    try:
        found = ipaddress.ip_address(text or "")
    except ValueError:
        return None
    if isinstance(found, IPv4Address):
        return found
    return found.ipv4_mapped or IPv6Address(int(found))  # the latter without the name of an interface


def network_of(text: str) -> Network:
    """The network that ``text`` spells, as in 10.0.0.0/8; anything else raises ValueError."""
    found = ipaddress.ip_network(text)
    if isinstance(found, IPv6Network) and found.subnet_of(_MAPPED):
        inner = int(found.network_address) & 0xFFFF_FFFF
        return IPv4Network((inner, found.prefixlen - _MAPPED.prefixlen))
    return found


def site_of(text: str | None) -> str:
    """What one customer of a network provider has: an IPv4 address, or 64 bits of an IPv6 one.

    Whatever is no address is one site together.
    """
    found = address_of(text)
    if isinstance(found, IPv6Address):
        return str(IPv6Network((int(found), _SITE_BITS), strict=False))
    return "" if found is None else str(found)
