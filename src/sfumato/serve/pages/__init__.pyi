# Written by `make index` from the `__all__` of every module.
