"""What a release still says: probes, structure, tables, pictures, distributions, the frontier against ε."""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
