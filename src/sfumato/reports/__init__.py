"""Reports, certificates and packs: what was promised and found, readable, signed, bound to the bytes.

``sf.report([release], "report.html")`` writes one HTML file about releases and their audits.

Names are loaded when they are first used: a worker that signs certificates needs no pages and no ledger.
"""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
