# Written by `make index` from the `__all__` of every module.
from .noise_share import NoiseShare as NoiseShare
from .secure_messages import MaskedInput as MaskedInput
from .secure_messages import Quantiser as Quantiser
from .secure_messages import SecureSum as SecureSum
from .secure_sum import SecureSumClient as SecureSumClient
from .secure_sum import SecureSumServer as SecureSumServer
