"""Secure sums: a server learns the sum of the clients' vectors and nothing else about any of them.

The protocol is that of Bonawitz et al. 2017 ("Practical Secure Aggregation for Privacy-Preserving Machine
Learning"): pairwise masks that cancel in the sum, a self-mask on top, and Shamir shares of what makes them,
so that clients may drop out at any stage.

**Threat model.** The server is *honest but curious*: it follows the protocol and studies all it sees, with up
to threshold − 1 clients that show it everything. They learn the sum over the other clients whose input
arrived, who took part and who dropped out, and nothing more (section 6 of the paper), as long as AES-256 is a
pseudo-random function, X25519 with HKDF gives keys that look uniform, and ChaCha20-Poly1305 is authenticated
encryption. Nothing is claimed against a server that departs from the protocol. Keys are not authenticated
unless clients are given each other's Ed25519 keys (``trusted``). Nothing keeps a client from bringing a
wrong vector. A sum is not private by itself: what it tells about one client is bounded only by noise.
"""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
