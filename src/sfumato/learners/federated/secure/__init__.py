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

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.learners.federated.secure.noise_share import NoiseShare as NoiseShare
    from sfumato.learners.federated.secure.secure_messages import MaskedInput as MaskedInput
    from sfumato.learners.federated.secure.secure_messages import Quantiser as Quantiser
    from sfumato.learners.federated.secure.secure_messages import SecureSum as SecureSum
    from sfumato.learners.federated.secure.secure_sum import SecureSumClient as SecureSumClient
    from sfumato.learners.federated.secure.secure_sum import SecureSumServer as SecureSumServer

__all__ = ["MaskedInput", "NoiseShare", "Quantiser", "SecureSum", "SecureSumClient", "SecureSumServer"]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "NoiseShare": "noise_share",
            "MaskedInput": "secure_messages",
            "Quantiser": "secure_messages",
            "SecureSum": "secure_messages",
            "SecureSumClient": "secure_sum",
            "SecureSumServer": "secure_sum",
        },
    )
