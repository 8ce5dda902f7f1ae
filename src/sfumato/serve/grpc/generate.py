"""Generate the gRPC code of ``sfumato.proto``: ``python -m sfumato.serve.grpc.generate``."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from sfumato.errors import BadInput

_PACKAGES = Path(__file__).parents[3]
_HERE = Path(__file__).parent
#: The files that are generated.
GENERATED = ("sfumato_pb2.py", "sfumato_pb2.pyi")
_HEADER = """\
# Generated from sfumato.proto: python -m sfumato.serve.grpc.generate
# ruff: noqa
# fmt: off
# mypy: ignore-errors
"""


def generate(into: Path) -> None:
    """Write the generated files below ``into``, the folder of packages, with our header and ``__all__``."""
    try:
        from grpc_tools import protoc  # type: ignore[import-untyped]
    except ImportError:
        raise BadInput("generating code needs grpcio-tools: pip install grpcio-tools.") from None
    below = _HERE.relative_to(_PACKAGES)
    (into / below).mkdir(parents=True, exist_ok=True)
    outs = [f"--{kind}_out={into}" for kind in ("python", "pyi")]
    failed = protoc.main(["protoc", f"-I{_PACKAGES}", *outs, str(_HERE / "sfumato.proto")])
    if failed:
        raise BadInput(f"sfumato.proto cannot be compiled: protoc ended with {failed}.")
    module, stubs = (into / below / name for name in GENERATED)
    # The messages are made when the module is imported; its stubs name them.
    defined = ast.parse(stubs.read_text()).body
    offered = sorted(node.name for node in defined if isinstance(node, ast.ClassDef))
    module.write_text(f"{_HEADER}{module.read_text()}\n__all__ = {offered!r}\n")
    stubs.write_text(_HEADER + stubs.read_text())


if __name__ == "__main__":
    try:
        generate(_PACKAGES)
    except BadInput as error:
        sys.exit(str(error))
