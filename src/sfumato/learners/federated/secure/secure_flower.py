"""Secure sums between Flower clients and a Flower server, over Flower's own messages.

On a client, :class:`SecureSumMod` is the outermost mod: ``ClientApp(mods=[SecureSumMod(), privacy_mod])``.
What the app and the mods inside it answer, noise included, is put on the grid and masked; nothing else of the
answer leaves, metrics neither. On the server :class:`SecureFedAvg` takes the place of ``FedAvg``: a round is
four exchanges of train messages, and what it learns is the sum, which it divides by the number of clients in
it.

A client that fails, or whose answer does not come in time, at any of the four exchanges has dropped out. If
fewer than the threshold stay, the round leaves the model as it was.
"""

from sfumato.learners.federated.flower_import import require_flower

require_flower("a secure sum on Flower")

from sfumato.learners.federated.secure.flower_client import SecureSumMod  # noqa: E402  (Flower is there)
from sfumato.learners.federated.secure.flower_server import SecureFedAvg, SecureRound  # noqa: E402

__all__ = ["SecureFedAvg", "SecureRound", "SecureSumMod"]
