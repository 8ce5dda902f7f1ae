# Written by `make index` from the `__all__` of every module.
from .budget_allocation import water_filling as water_filling
