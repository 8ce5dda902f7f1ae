"""Rounds of clients behind a Flower grid."""

from sfumato.learners.federated import FlowerClients, federate

_OF_CLIENTS = ("patience", "timeout", "secrets")


def average(names, initial, protection, *, rounds, central=None, **options):
    """What runs ``rounds`` rounds of the clients ``names`` over a grid that it is given."""
    of_clients = {"timeout": None} | {name: options.pop(name) for name in _OF_CLIENTS if name in options}

    def over(grid):
        clients = FlowerClients(grid, names, rounds=rounds, central=central is not None, **of_clients)
        return federate(clients, initial, protection, rounds=rounds, central=central, **options)

    return over
