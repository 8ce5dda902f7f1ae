"""*TLDP*, figure 3: three clients train together (type III), at claimed and at proven ε of a client.

``tasks`` says who learns what (``reviews`` and ``traffic`` read tables, ``models`` are what is trained),
``methods`` what leaves a client and what is proven of it, ``training`` and ``sweep`` run all of it,
``comparison`` sets TLDP beside sound mechanisms at the same ε of a client over all rounds, ``drawing`` and
``chapter`` show it. Imports torch.
"""

from sfumato_reproductions.tldp.federated.chapter import Chapter, made

__all__ = ["Chapter", "made"]
