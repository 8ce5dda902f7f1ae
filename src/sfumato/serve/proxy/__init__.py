"""An S3-compatible read path: readers get the protected object of their tier, the same bytes every time.

``bucket_declarations`` is what an owner declares of a bucket, ``object_sources`` where its objects may come
from, ``buckets`` the operations on both; ``protected_objects`` draws what is asked for, once, and
``object_cache`` says what was drawn; ``s3_signatures`` and ``s3_authentication`` say who asks; ``s3_app``
speaks S3.
"""

from sfumato.serve.proxy.proxy_mounting import proxy_mount
from sfumato.serve.proxy.s3_app import make_proxy

__all__ = ["make_proxy", "proxy_mount"]
