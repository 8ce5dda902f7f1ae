"""An S3-compatible read path: readers get the protected object of their tier, the same bytes every time.

``declared`` is what an owner declares of a bucket, ``sources`` where its objects may come from, ``buckets``
the operations on both; ``objects`` draws what is asked for, once, and ``kept`` says what was drawn;
``signatures`` and ``signed`` say who asks; ``app`` speaks S3.
"""

from sfumato.serve.proxy.app import make_proxy
from sfumato.serve.proxy.mounting import proxy_mount

__all__ = ["make_proxy", "proxy_mount"]
