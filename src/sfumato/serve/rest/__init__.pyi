# Written by `make index` from the `__all__` of every module.
from .rest_app import make_app as make_app
