"""A whole secure sum in one process, every message through its bytes, with clients that leave."""

import numpy as np

from sfumato.learners.federated.secure import MaskedInput, SecureSumClient, SecureSumServer
from sfumato.learners.federated.secure.secure_messages import (
    Advertisement,
    Delivery,
    Roster,
    SealedShares,
    UnmaskRequest,
    UnmaskShares,
)
from sfumato.learners.federated.secure.secure_primitives import RINGS, with_masks

STAYS = 4


def mask(key, length, bits=64):
    """The mask of one key alone."""
    return with_masks(np.zeros(length, dtype=RINGS[bits]), added=[key], taken=[])


def masked(client, delivery, vector):
    """The masked input of a client that is given what others sealed for it."""
    client.accept(delivery)
    return client.mask(vector)


def summed(terms, vectors, leaves=None):
    """The server after a sum of ``vectors`` by client; ``leaves``: before which stage a client is gone."""
    leaves = leaves or {}
    there = {
        stage: [name for name in vectors if leaves.get(name, STAYS) > stage] for stage in range(STAYS + 1)
    }
    clients = {name: SecureSumClient(terms, name) for name in vectors}
    server = SecureSumServer(terms)
    for name in there[0]:
        server.receive(Advertisement.from_bytes(clients[name].advertise().to_bytes()))
    roster = server.roster().to_bytes()
    for name in there[1]:
        server.receive(SealedShares.from_bytes(clients[name].share(Roster.from_bytes(roster)).to_bytes()))
    boxes = {name: one.to_bytes() for name, one in server.deliveries().items()}
    for name in there[2]:
        sent = masked(clients[name], Delivery.from_bytes(boxes[name]), vectors[name])
        server.receive(MaskedInput.from_bytes(sent.to_bytes()))
    request = server.request().to_bytes()
    for name in there[3]:
        shares = clients[name].unmask(UnmaskRequest.from_bytes(request))
        server.receive(UnmaskShares.from_bytes(shares.to_bytes()))
    return server


def shared(terms, names, **options):
    """Clients that have shared their keys, and their server, which has yet to deliver the shares."""
    clients = {name: SecureSumClient(terms, name, **options) for name in names}
    server = SecureSumServer(terms)
    for client in clients.values():
        server.receive(client.advertise())
    roster = server.roster()
    for client in clients.values():
        server.receive(client.share(roster))
    return clients, server
