"""An S3-compatible read path: readers get the protected object of their tier, the same bytes every time.

``buckets`` has declarations, sources and operations; ``protected_objects`` draws each requested object once
and keeps it; ``s3_protocol`` has error codes and signatures, ``s3_responses`` the listings, ``s3_app`` the
application.
"""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

__all__: list[str] = []

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(__name__, {})
