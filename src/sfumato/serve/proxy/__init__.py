"""An S3-compatible read path: readers get the protected object of their tier, the same bytes every time.

``buckets`` has declarations, sources and operations; ``protected_objects`` draws each requested object once
and keeps it; ``s3_protocol`` has error codes and signatures, ``s3_responses`` the listings, ``s3_app`` the
application.
"""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
