"""``sfumato budget``: open, show, history, check, export, close, release."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli import terminal
from sfumato.cli.options import JSON, LedgerUrl, home_ledger, opened_ledger
from sfumato.errors import BadInput, spell
from sfumato.privacy import RECORDS

if TYPE_CHECKING:
    from sfumato.ledger import Balance, Entry, Ledger


app = typer.Typer(
    name="budget", help="What each dataset may spend, and what it has spent.", no_args_is_help=True
)

_NAME = typer.Argument(metavar="DATASET", help="Name of the dataset.")


@app.command("open")
def open_(
    dataset: Annotated[str, _NAME],
    epsilon: Annotated[float, typer.Option(metavar="ε", help="The budget.")],
    delta: Annotated[float, typer.Option(metavar="δ", help="Such as 1e-6; 0 admits only what has no δ.")],
    unit: Annotated[str, typer.Option(help="What the budget protects.")] = RECORDS.unit,
    neighbours: Annotated[str, typer.Option(help="replace, zero-out or add/remove.")] = RECORDS.neighbours,
    ledger: LedgerUrl = None,
    as_json: JSON = False,
) -> None:
    """Give DATASET a budget, which never changes afterwards."""
    with opened_ledger(ledger, make=True) as book:
        book.open(dataset, epsilon, delta, unit, neighbours)
        _tell(book, book.balance(dataset), as_json)


@app.command()
def show(
    dataset: Annotated[
        str | None, typer.Argument(metavar="[DATASET]", help="All of them unless given.")
    ] = None,
    ledger: LedgerUrl = None,
    as_json: JSON = False,
) -> None:
    """Show what is left of a budget."""
    from sfumato.privacy import format_upper

    found: list[tuple[Balance, float, str]] = []
    if dataset is not None or ledger is not None or home_ledger().exists():
        with opened_ledger(ledger) as book:
            names = book.names() if dataset is None else [dataset]
            for balance in map(book.balance, names):
                found.append((balance, book.fixed_plan_epsilon(balance.dataset), _shown(book, balance)))
    if as_json:
        results = [balance.to_dict() | {"fixed_plan_epsilon": epsilon} for balance, epsilon, _ in found]
        print(json.dumps(results if dataset is None else results[0]))
        return
    if not found:
        print("No budget was opened yet; see sfumato budget open --help.")
    for _, epsilon, text in found:
        fixed = f"  spent so far, had the plan been fixed in advance: ε = {format_upper(epsilon)}"
        print(terminal.in_line(f"{text}\n{fixed}"))


@app.command()
def history(
    dataset: Annotated[str, _NAME],
    ledger: LedgerUrl = None,
    as_json: JSON = False,
) -> None:
    """List every entry of a dataset, oldest first."""
    with opened_ledger(ledger) as book:
        entries = book.history(dataset)
    if as_json:
        print(json.dumps([entry.to_dict() for entry in entries]))
        return
    print(terminal.in_line("\n".join(_line(entry) for entry in entries)))


@app.command()
def check(
    dataset: Annotated[
        str | None, typer.Argument(metavar="[DATASET]", help="All of them unless given.")
    ] = None,
    ledger: LedgerUrl = None,
    as_json: JSON = False,
) -> None:
    """Look for rows that were edited, deleted or added by another hand; exit 4 if there are any."""
    from sfumato.reports import VerificationFailed

    with opened_ledger(ledger) as book:
        damages = book.check(dataset)
    if as_json:
        print(json.dumps({"holds": not damages, "damages": [str(damage) for damage in damages]}))
        raise typer.Exit(4 if damages else 0)
    if damages:
        raise VerificationFailed(
            "the ledger was altered: " + "; ".join(str(damage) for damage in damages) + "."
        )
    print("The chain holds.")


@app.command()
def export(
    dataset: Annotated[str, _NAME],
    format: Annotated[str, typer.Option(metavar="csv|json", help="Which format.")] = "csv",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Printed unless given.")
    ] = None,
    ledger: LedgerUrl = None,
) -> None:
    """Write the history of a dataset as CSV or JSON."""
    if format not in ("csv", "json"):
        raise BadInput(f"--format is csv or json, not {format!r}.")
    with opened_ledger(ledger) as book:
        rows = [entry.to_dict() for entry in book.history(dataset)]
    from sfumato.reports import entries_csv

    text = json.dumps(rows, indent=2) + "\n" if format == "json" else entries_csv(rows)
    if output is None:
        print(text, end="")
        return
    from sfumato.io import atomic_output

    with atomic_output(output) as file:
        file.write(text.encode())


@app.command()
def close(
    dataset: Annotated[str, _NAME],
    ledger: LedgerUrl = None,
    as_json: JSON = False,
) -> None:
    """Admit nothing further for a dataset."""
    with opened_ledger(ledger) as book:
        book.close(dataset)
        _tell(book, book.balance(dataset), as_json)


@app.command()
def release(
    dataset: Annotated[str, _NAME],
    hold: Annotated[int, typer.Argument(metavar="NUMBER", help="Which entry.")],
    ledger: LedgerUrl = None,
    as_json: JSON = False,
) -> None:
    """Give back what a job that drew nothing had set aside."""
    with opened_ledger(ledger) as book:
        book.release_hold(dataset, hold)
        _tell(book, book.balance(dataset), as_json)


def _tell(book: Ledger, balance: Balance, as_json: bool) -> None:
    print(json.dumps(balance.to_dict()) if as_json else terminal.in_line(_shown(book, balance)))


def laplace_left(book: Ledger, balance: Balance) -> float:
    """Return the largest ε of Laplace noise that still fits: the one that the refusal of more names."""
    from sfumato.privacy import Guarantee

    # More than any budget pays: noise of ε′ has a δ of 1 − exp((ε − ε′)/2) at ε.
    beyond = 1.01 * (balance.epsilon - 2.0 * math.log1p(-balance.delta))
    asked = Guarantee.laplace(1.0 / beyond, unit=balance.unit, neighbours=balance.neighbours)
    return book.preview(balance.dataset, asked).largest


def _shown(book: Ledger, balance: Balance) -> str:
    """A bar of what is left, and the numbers behind it."""
    from sfumato.privacy import format_lower

    width = max(10, min(40, shutil.get_terminal_size((80, 24)).columns - 40))
    full = math.ceil(balance.used * width)
    bar = "█" * full + "░" * (width - full)
    name = terminal.printable(balance.dataset if len(balance.dataset) <= 60 else balance.dataset[:57] + "…")
    budget = f"ε = {balance.epsilon:g} at δ = {balance.delta:g}"
    lines = [
        f"{name}: {budget} per {balance.unit} under {balance.neighbours}",
        f"  {bar} {balance.used:.1%} used, {balance.state}",
        f"  releases: {balance.spends} (open holds: {balance.open_holds})",
        f"  still fits: {spell(balance.gaussian_left, 'command line')}; Laplace noise up to ε = "
        f"{format_lower(laplace_left(book, balance))}; anything else without δ at least up to ε = "
        f"{format_lower(balance.left_pure)}",
    ]
    return "\n".join(lines)


def _line(entry: Entry) -> str:
    from sfumato.privacy import format_delta, format_upper

    promise = (
        ""
        if entry.guarantee is None
        else f"  ε={format_upper(entry.guarantee.epsilon())} δ={format_delta(entry.guarantee.at_delta)}"
    )
    refers = "" if entry.refers_to is None else f"  of {entry.refers_to}"
    purpose = f"  {terminal.printable(entry.purpose)}" if entry.purpose else ""
    return f"{entry.number:>6}  {entry.at[:19]}  {entry.kind:<8}{promise}{refers}{purpose}  {entry.hash[:12]}"
