"""What ``sfumato protect``, ``sfumato plan`` and commands like them tell people."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sfumato.cli import terminal
from sfumato.cli.budget import gaussian_left
from sfumato.errors import spell

if TYPE_CHECKING:
    from sfumato.release import Plan, Protected
    from sfumato.release.folder import ProtectedFolder

__all__ = ["classes", "json_text", "planned", "told", "width"]


def planned(made: Plan) -> str:
    """The plan, for people."""
    from sfumato.privacy.wording import below_one, upward

    name = terminal.printable
    rows = "as many records as it holds" if made.rows is None else f"{made.rows:,} records"
    what = made.what or f"{rows} of {made.columns:,} columns"
    lines = [made.statement.table(width()), "", f"Would release: {what} from {name(made.source)}"]
    lines += _skipped("Would skip", made.skipped)
    for size, epsilon in made.groups.items():
        unit, delta = made.statement.proven.unit, made.grouped[size].at_delta
        who = f"one {unit}" if size == 1 else f"{size} {unit}s that change together"
        why = "" if made.statement.proven.proves_nothing else f" ({made.grouped[size].theorem})"
        finite = math.isfinite(epsilon)
        said = f"ε = {upward(epsilon)} at δ = {below_one(delta)}" if finite else f"nothing{why}"
        lines.append(f"  proven for {who}: {said}")
    if made.expected:
        lines += ["Expected error, clipping aside:", *(f"  {error}" for error in made.expected)]
    if made.cost is None:
        lines.append("Cost: none is counted without --dataset and an open budget")
    elif made.cost.fits:
        left = made.cost.balance
        lines.append(f"Cost: it fits; {left.used:.1%} of the budget would be used; after it would fit")
        lines.append(f"  {gaussian_left(left)}")
    else:
        lines.append(f"Cost: refused, {name(spell(made.cost.refusal or '', 'command line'))}")
    return "\n".join(lines)


def json_text(result: Any) -> str:
    """Return ``result`` as JSON, with the refusals in it as the command line spells them."""

    def spelled(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: spelled(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [spelled(inner) for inner in value]
        return spell(value, "command line") if isinstance(value, str) else value

    return json.dumps(spelled(result))


def width() -> int:
    """How many columns a table may have here."""
    return min(shutil.get_terminal_size((100, 24)).columns, 100)


def told(done: Protected | ProtectedFolder) -> str:
    """The result, for people."""
    from sfumato.release.folder import ProtectedFolder, count_of

    name = terminal.printable
    if isinstance(done, ProtectedFolder):
        lines = [
            done.statement.table(width()),
            "",
            f"Released: {name(done.output)} ({count_of(done.released)}, a certificate beside each)",
            f"Manifest: {name(done.manifest.shown)}",
        ]
        sources = {one.source for one in done.released}
        if len(sources) == len(done.released) and sources != {one.name for one in done.released}:
            lines.append("Names: numbered; --names-file or --json tells which file is of which source")
        return "\n".join([*lines, *_skipped("Skipped", done.skipped)])
    lines = [
        done.statement.table(width()),
        "",
        f"Released: {name(done.shown)} ({done.what or _records(done)})",
        f"Certificate: {name(done.shown_certificate)}",
    ]
    if done.left_out:
        lines.append(f"Left out: {', '.join(map(name, done.left_out))}")
    return "\n".join(lines)


def classes(folders: Mapping[str, str]) -> list[str]:
    """Which class is of which of the owner's ``folders``, where they are called otherwise."""
    name = terminal.printable
    of = [f"{name(called)} is {name(folder)}" for called, folder in folders.items() if called != folder]
    return [f"Classes, for you alone: {', '.join(of)}"] if of else []


def _skipped(word: str, skipped: Sequence[tuple[str, str]]) -> list[str]:
    from sfumato.release.folder import count_of

    if not skipped:
        return []
    lines = [
        f"  {terminal.printable(file)}: {terminal.printable(spell(why, 'command line'))}"
        for file, why in skipped
    ]
    return [f"{word}: {count_of(skipped)}", *lines]


def _records(done: Protected) -> str:
    return f"{done.rows:,} records of {done.columns:,} columns"
