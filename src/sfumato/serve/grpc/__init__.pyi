# Written by `make index` from the `__all__` of every module.
from .grpc_server import make_server as make_server
from .stub import SfumatoStub as SfumatoStub
