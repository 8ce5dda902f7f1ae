"""The one path every release takes, from a file to a file."""

from sfumato.pipeline.catalogue import MECHANISMS, make_mechanism
from sfumato.pipeline.protection import Protected, protect

__all__ = ["MECHANISMS", "Protected", "make_mechanism", "protect"]
