"""All benchmarks, as a table and, with ``--write FILE``, as a page. Fails if a target is missed.

``--only NAME`` runs one of them, a module of this folder, and writes its section of the page anew.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import audit
import certificates
import federated
import folder_command
import geometry
import keyed
import ledger
import linear_head
import noise
import pictures
import release
import secure_sums
import service_load
import starting
import streaming
import structure
import tensors
import throughput
import video
from timing import Row

PARTS = {
    "Noise: 10⁷ values; ratio = speed over numpy.random": noise,
    "Keyed noise: rows of a release; ratio = time over fresh noise": keyed,
    "Release: 60,000 × 784 float32; ratio = time over X + standard_normal": release,
    "Ledger: durable spends; ratio = speed over a raw INSERT and COMMIT": ledger,
    "Certificates": certificates,
    "Starting up": starting,
    "Streaming": streaming,
    "Audit: 10,000 × 784; ratio = time over three minutes": audit,
    "Tensors: 60,000 × 784 float32; ratio = time over X + standard_normal": tensors,
    "Pictures: luma 224 × 224, any 16 pixels; ratio = gain over the best DP-Pix, or ms a picture": pictures,
    "Throughput: 224 × 224 colour JPEG in and out, one public map": throughput,
    "The command on a folder of 224 × 224 colour JPEGs": folder_command,
    "Video: real clips, region(16); ratio = over unfiltered noise at the same ε": video,
    "Geometry: 10,000 points, d = 10, M = 784; ratio = time over one forward pass": geometry,
    "Linear head: an epoch of DP-SGD; ratio = time of Opacus's hooks over ours": linear_head,
    "Federated: a round of Flower; ratio = time over the same without privacy": federated,
    "Secure sums: clients × parameters; ratio = seconds over three": secure_sums,
    "Service: 224 × 224 colour JPEG over HTTP, two workers, one ledger on SQLite": service_load,
    "Structure: 10,000 × 784; ratio = time over one distance matrix by BLAS": structure,
}


HEAD = """# Benchmarks

Written by `make bench`, or one section by `python benchmarks/run.py --only NAME --write docs/benchmarks.md`.
Ratios are of best times in one run of a section.
"""


def main() -> int:
    names = {part.__name__: title for title, part in PARTS.items()}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(names), action="append", help="one of the benchmarks")
    parser.add_argument("--write", type=Path, help="also write the table as a Markdown page")
    arguments = parser.parse_args()
    wanted = [names[name] for name in arguments.only or names]
    sections: dict[str, str] = {}
    missed: list[Row] = []
    for title, part in PARTS.items():
        if title not in wanted:
            continue
        print(f"\n{title}")
        lines = [f"## {title}", "", "| what | measured | ratio | must be |", "|---|---|---|---|"]
        for row in part.measure():
            mark = "" if row.reached else "  MISSED"
            print(f"  {row.name:<64}{row.value:>14}{row.ratio:>10.3g}  {row.target}{mark}", flush=True)
            lines.append(f"| {row.name} | {row.value} | {row.ratio:.3g} | {row.target} |")
            missed += [] if row.reached else [row]
        sections[title] = "\n".join(lines) + "\n"
    if arguments.write:
        kept = _sections(arguments.write) if arguments.only and arguments.write.exists() else {}
        page = [(kept | sections)[title] for title in PARTS if title in kept | sections]
        arguments.write.write_text("\n".join([HEAD, *page]), encoding="utf-8")
    return 1 if missed else 0


def _sections(page: Path) -> dict[str, str]:
    """The sections of an earlier page by their titles."""
    parts = page.read_text("utf-8").split("\n## ")[1:]
    return {part.split("\n", 1)[0]: f"## {part.rstrip()}\n" for part in parts}


if __name__ == "__main__":
    sys.exit(main())
