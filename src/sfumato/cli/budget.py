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
from sfumato.privacy import RECORDS, format_delta, format_lower, format_upper

if TYPE_CHECKING:
    from sfumato.ledger import Balance, Entry, Ledger

app = typer.Typer(help="Manage the privacy budgets of datasets.", no_args_is_help=True, add_completion=False)
DatasetName = Annotated[str, typer.Argument(metavar="DATASET", hidden=True)]
AnyDataset = Annotated[str | None, typer.Argument(metavar="[DATASET]", hidden=True)]


@app.command("open")
def open_(
    dataset: DatasetName,
    epsilon: Annotated[float, typer.Option(metavar="ε", help="Privacy budget.")],
    delta: Annotated[
        float, typer.Option(metavar="δ", help="Failure probability, such as 1e-6; 0 admits pure ε only.")
    ],
    unit: Annotated[str, typer.Option(help="Unit of privacy.")] = RECORDS.unit,
    neighbours: Annotated[
        str, typer.Option(help="Neighbouring datasets: replace, zero-out or add/remove.")
    ] = RECORDS.neighbours,
    ledger: LedgerUrl = None,
    as_json: JSON = False,
) -> None:
    """Open a budget for DATASET, which never changes afterwards."""
    with opened_ledger(ledger, make=True) as book:
        book.open(dataset, epsilon, delta, unit, neighbours)
        _answer(book, dataset, as_json)


@app.command()
def show(dataset: AnyDataset = None, ledger: LedgerUrl = None, as_json: JSON = False) -> None:
    """Show what is left of the budget of DATASET, or of all budgets."""
    found: list[tuple[Balance, float, str]] = []
    if dataset is not None or ledger is not None or home_ledger().exists():
        with opened_ledger(ledger) as book:
            names = book.names() if dataset is None else [dataset]
            for balance in map(book.balance, names):
                found.append((balance, book.fixed_plan_epsilon(balance.dataset), _shown(book, balance)))
    results = [balance.to_dict() | {"fixed_plan_epsilon": epsilon} for balance, epsilon, _ in found]
    lines = [
        f"{text}\n  spent so far, had the plan been fixed in advance: ε = {format_upper(epsilon)}"
        for _, epsilon, text in found
    ]
    text = "\n".join(lines or ["No budget was opened yet; see sfumato budget open --help."])
    terminal.answer(as_json, results if dataset is None else results[0], text)


@app.command()
def history(dataset: DatasetName, ledger: LedgerUrl = None, as_json: JSON = False) -> None:
    """List every entry of DATASET, oldest first."""
    with opened_ledger(ledger) as book:
        entries = book.history(dataset)
    text = "\n".join(_line(entry) for entry in entries)
    terminal.answer(as_json, [entry.to_dict() for entry in entries], text)


@app.command()
def check(dataset: AnyDataset = None, ledger: LedgerUrl = None, as_json: JSON = False) -> None:
    """Find ledger rows that were edited, deleted or added by another program; exit 4 if there are any."""
    from sfumato.reports import VerificationFailed

    with opened_ledger(ledger) as book:
        damages = [str(damage) for damage in book.check(dataset)]
    if damages and not as_json:
        raise VerificationFailed(f"the ledger was altered: {'; '.join(damages)}.")
    terminal.answer(as_json, {"holds": not damages, "damages": damages}, "The chain holds.")
    raise typer.Exit(4 if damages else 0)


@app.command()
def export(
    dataset: DatasetName,
    format: Annotated[str, typer.Option(metavar="csv|json", help="Format.")] = "csv",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="File to write. Default: standard output."),
    ] = None,
    ledger: LedgerUrl = None,
) -> None:
    """Write the history of DATASET as CSV or JSON."""
    from sfumato.io import atomic_output
    from sfumato.reports import entries_csv

    if format not in ("csv", "json"):
        raise BadInput(f"`format` is csv or json, not {format!r}.", parameter="format")
    with opened_ledger(ledger) as book:
        rows = [entry.to_dict() for entry in book.history(dataset)]
    text = json.dumps(rows, indent=2) + "\n" if format == "json" else entries_csv(rows)
    if output is None:
        print(text, end="")
        return
    with atomic_output(output) as file:
        file.write(text.encode())


@app.command()
def close(dataset: DatasetName, ledger: LedgerUrl = None, as_json: JSON = False) -> None:
    """Close the budget of DATASET for good."""
    with opened_ledger(ledger) as book:
        book.close(dataset)
        _answer(book, dataset, as_json)


@app.command()
def release(
    dataset: DatasetName,
    hold: Annotated[int, typer.Argument(metavar="NUMBER", hidden=True)],
    ledger: LedgerUrl = None,
    as_json: JSON = False,
) -> None:
    """Give back the hold with this NUMBER, of a job that drew nothing."""
    with opened_ledger(ledger) as book:
        book.release_hold(dataset, hold)
        _answer(book, dataset, as_json)


def _answer(book: Ledger, dataset: str, as_json: bool) -> None:
    balance = book.balance(dataset)
    terminal.answer(as_json, balance.to_dict(), _shown(book, balance))


def laplace_left(book: Ledger, balance: Balance) -> float:
    """Return the largest ε of Laplace noise that still fits, which a refusal of more names too."""
    from sfumato.privacy import Guarantee

    # More than any budget pays: noise of ε′ has a δ of 1 − exp((ε − ε′)/2) at ε.
    beyond = 1.01 * (balance.epsilon - 2.0 * math.log1p(-balance.delta))
    asked = Guarantee.laplace(1.0 / beyond, unit=balance.unit, neighbours=balance.neighbours)
    return book.preview(balance.dataset, asked).largest


def _shown(book: Ledger, balance: Balance) -> str:
    """Return a bar of what is left, and the numbers behind it."""
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
    promise = (
        ""
        if entry.guarantee is None
        else f"  ε={format_upper(entry.guarantee.epsilon())} δ={format_delta(entry.guarantee.at_delta)}"
    )
    refers = "" if entry.refers_to is None else f"  of {entry.refers_to}"
    purpose = f"  {terminal.printable(entry.purpose)}" if entry.purpose else ""
    return f"{entry.number:>6}  {entry.at[:19]}  {entry.kind:<8}{promise}{refers}{purpose}  {entry.hash[:12]}"
