"""Images, sound and video: what may change in them, what in them is sensitive, and noise that knows both."""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
