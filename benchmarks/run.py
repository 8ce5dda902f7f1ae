"""All benchmarks, as a table and, with ``--write FILE``, as a page. Fails if a target is missed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import audit
import certificates
import federated
import geometry
import ledger
import linear_head
import noise
import pictures
import release
import starting
import streaming
import structure
import tensors
import throughput
import video
from timing import Row

PARTS = {
    "Noise: 10⁷ values; ratio = speed over numpy.random": noise,
    "Release: 60,000 × 784 float32; ratio = time over X + standard_normal": release,
    "Ledger: durable spends; ratio = speed over a raw INSERT and COMMIT": ledger,
    "Certificates": certificates,
    "Starting up": starting,
    "Streaming": streaming,
    "Audit: 10,000 × 784; ratio = time over three minutes": audit,
    "Tensors: 60,000 × 784 float32; ratio = time over X + standard_normal": tensors,
    "Pictures: luma 224 × 224, any 16 pixels; ratio = gain over the best DP-Pix, or ms a picture": pictures,
    "Throughput: 224 × 224 colour JPEG in and out, one public map": throughput,
    "Video: real clips, region(16); ratio = over unfiltered noise at the same ε": video,
    "Geometry: 10,000 points, d = 10, M = 784; ratio = time over one forward pass": geometry,
    "Linear head: an epoch of DP-SGD; ratio = time of Opacus's hooks over ours": linear_head,
    "Federated: MNIST on Flower, a round of 3 clients; ratio = time over the same without privacy": federated,
    "Structure: 10,000 × 784; ratio = time over one distance matrix by BLAS": structure,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="also write the table as a Markdown page")
    arguments = parser.parse_args()
    page = [
        "# Benchmarks",
        "",
        "Written by `make bench`. Ratios of best times in one run.",
        "",
    ]
    missed: list[Row] = []
    for title, part in PARTS.items():
        print(f"\n{title}")
        page += [f"## {title}", "", "| what | measured | ratio | must be |", "|---|---|---|---|"]
        for row in part.measure():
            mark = "" if row.reached else "  MISSED"
            print(f"  {row.name:<64}{row.value:>14}{row.ratio:>10.3g}  {row.target}{mark}", flush=True)
            page.append(f"| {row.name} | {row.value} | {row.ratio:.3g} | {row.target} |")
            missed += [] if row.reached else [row]
        page.append("")
    if arguments.write:
        arguments.write.write_text("\n".join(page), encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
