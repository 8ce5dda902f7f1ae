# Written by `make index` from the `__all__` of every module.
from .server import run as run
from .service import Service as Service
from .settings import Listening as Listening
from .settings import Settings as Settings
from .tenant_registry import Registry as Registry
from .tenant_registry import Tenant as Tenant
