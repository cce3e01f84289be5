"""``attnverify inspect``: a model of one's own, traced and measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from attnverify.cli.options import Jobs, Json, OnDevice, Seed, require_device
from attnverify.cli.progress import pieces_bar, tell
from attnverify.support.errors import InputError, require
from attnverify.verification import printing

if TYPE_CHECKING:
    from attninspect.texts import Look


WORDS = 96  # of the shipped essay
NUMBER = "One number in parts"
_WITH = "a number: --logit, --class or --coordinate"


def inspect_model(
    model: Annotated[Path, typer.Argument(help="Folder with config.json and safetensors.")],
    text: Annotated[Path | None, typer.Option(help="Text file; a shipped text if omitted.")] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="File of token ids, in place of a text.")
    ] = None,
    texts: Annotated[
        list[Path] | None,
        typer.Option(
            help="Many texts: a folder of .txt files, or a file with a text a line. "
            "May be repeated."
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for the page, JSON, CSV and figures; with --texts for page, JSON and CSV.",
        ),
    ] = None,
    as_json: Json = False,
    layers: Annotated[str | None, typer.Option(help='Layers to report, as "1,3-5".')] = None,
    dtype: Annotated[
        Literal["float32", "float64", "bfloat16"],
        typer.Option(help="Floats that the model runs in; bfloat16 for such weights alone."),
    ] = "float64",
    device: OnDevice = "cpu",
    brief: Annotated[
        bool, typer.Option("--brief", help="Report only shares, residuals and a number: faster.")
    ] = False,
    logit: Annotated[
        str | None,
        typer.Option(
            help='Take the logit of this token apart: as in the text, space included, or "#7".',
            rich_help_panel=NUMBER,
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--class",
            help="Take the logit of this class apart: its name, or its number from 0.",
            rich_help_panel=NUMBER,
        ),
    ] = None,
    coordinate: Annotated[
        int | None,
        typer.Option(
            help="Take this entry of the last hidden state apart, from 0.", rich_help_panel=NUMBER
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="A token, class or coordinate that is subtracted.", rich_help_panel=NUMBER
        ),
    ] = None,
    at: Annotated[
        int | None,
        typer.Option(
            help="Position of the token whose output it is, from 1, special tokens included; the "
            "last if omitted.",
            rich_help_panel=NUMBER,
        ),
    ] = None,
    paths: Annotated[
        int | None,
        typer.Option(
            help="So many of the paths that contribute most to it, and a bound on all others.",
            rich_help_panel=NUMBER,
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(help="Most steps of the search for these, 2,000.", rich_help_panel=NUMBER),
    ] = None,
    ablate: Annotated[
        Literal["zero", "mean", "resample"] | None,
        typer.Option(
            help="Give the number also without each head: its output 0, its mean over tokens, or "
            "what it is with the tokens in another order.",
            rich_help_panel=NUMBER,
        ),
    ] = None,
    seed: Seed = 0,
    patterns: Annotated[
        str | None,
        typer.Option(
            help='Layers or heads of which the page shows attention patterns, as "3,4-6,5.2"; '
            "if omitted, all where they fit, else those that the findings name."
        ),
    ] = None,
    jobs: Jobs = None,
    book: Annotated[
        str | None,
        typer.Option(
            envvar="BOOK_ADDRESS",
            help="Address of the published book, to which the page's claims then link.",
        ),
    ] = None,
) -> None:
    """Trace a model of yours, prove the trace, and say what the theorems say about it.

    Nothing is downloaded, and no code of the folder runs. With --texts there is a report for each
    text and a table over all of them; the same command goes on where a run was ended. A number of
    the model, a logit or a class, comes apart by path length, head, layer and input token; over
    many texts with the mean and the spread of each head, as by

    attnverify inspect FOLDER --texts prompts.txt --logit " Paris" --against " Rome" --out report
    """
    require_device(device)
    number = _number({"logit": logit, "class": label, "coordinate": coordinate}, against, at)
    require(paths is None or bool(number), "paths", f"{paths} without a number", _WITH)
    from attninspect import command
    from attninspect.words import summary

    place, shown = command.address(book), None if layers is None else command.numbers(layers)
    if texts:
        if folder is None:
            raise InputError("out: got none, expected a folder, which --texts needs")
        require(text is None and tokens is None, "texts", "another text too", "--texts alone")
        others = {"ablate": ablate, "paths": paths, "nodes": nodes, "seed": seed or None}
        others["patterns"] = patterns
        asked = [name for name, value in others.items() if value is not None]
        require(not asked, "texts", f"{', '.join(asked)} too", "--text with one text, for these")
        from attninspect.texts import Look

        taken = None if shown is None else tuple(shown)
        parts = dtype, device, taken, brief, tuple(number.items())
        look = Look(model.absolute(), *parts)
        with _named(number):
            _inspect_texts(look, texts, folder, jobs, as_json, place)
        return
    require(jobs is None, "jobs", jobs, "it with --texts alone")

    require(text is None or tokens is None, "text", "both text and tokens", "one of them")
    if folder is not None:
        command.require_own(folder)
    from attninspect.inspect_model import inspect

    with _layers_bar() as advance, _named(number):
        report = inspect(
            model,
            None if tokens is None else command.ids_from(tokens),
            text=None if tokens is not None else _text(text),
            dtype=dtype,
            device=device,
            layers=shown,
            brief=brief,
            scalar=number or None,
            paths=paths,
            nodes=nodes,
            ablate=ablate,
            seed=seed,
            patterns=patterns,
            progress=advance,
        )
    if folder is not None:
        command.write(report, folder, place)
    written = [] if folder is None else [f"page in {folder / command.HTML}"]
    tell(report.as_json(), [*summary(report), *written], as_json)


def _number(kinds: dict[str, Any], against: str | None, at: int | None) -> dict[str, Any]:
    """The options of a number that were given; raises InputError unless one says which number."""
    chosen = {name: value for name, value in kinds.items() if value is not None}
    more = {name: v for name, v in {"against": against, "at": at}.items() if v is not None}
    given = " and ".join(f"--{name}" for name in chosen or more)
    one = len(chosen) == 1 or not (chosen or more)
    require(one, "number", given, f"one of {', '.join(f'--{name}' for name in kinds)}")
    if against is not None and "coordinate" in chosen:
        expected = "another coordinate, a whole number from 0"
        require(against.isdecimal() and against.isascii(), "against", repr(against), expected)
        more["against"] = int(against)
    return chosen | more


@contextmanager
def _named(number: dict[str, Any]) -> Iterator[None]:
    """Errors about the number name its option, in place of the argument in Python."""
    try:
        yield
    except InputError as error:
        argument, rest = str(error).split(":", 1)
        if argument != "scalar":
            raise
        raise InputError(f"{next(iter(number))}:{rest}") from error


def _text(file: Path | None) -> str:
    """The text of a file, or the first words of the essay that comes with the experiments."""
    from attninspect.load import LARGEST_TEXTS, text_of
    from attnverify.experiments.texts import passage

    return passage(0, WORDS) if file is None else text_of(file, "text", LARGEST_TEXTS)


@contextmanager
def _layers_bar() -> Iterator[Callable[[str, float], None]]:
    """A bar over a model's layers; the first call, with share 0, tells the memory needed."""
    with printing.progress_bar() as bar:
        task = bar.add_task("reading", total=100)

        def advance(what: str, share: float) -> None:
            if share == 0:
                printing.errors.print(f"memory: {what}", markup=False, highlight=False)
            bar.update(task, completed=100 * share, description=what)

        yield advance


def _inspect_texts(
    look: Look,
    paths: list[Path],
    folder: Path,
    jobs: int | None,
    as_json: bool,
    book: str,
) -> None:
    from attninspect import command, texts

    command.require_own(folder, texts.OWN)
    campaign = texts.campaign(look, texts.read(paths))
    with pieces_bar(len(campaign.tasks)) as finished:
        report = texts.inspect_texts(campaign, folder, jobs=jobs, finished=finished, book=book)
    tell(report, [*texts.lines(report), f"page in {folder / texts.HTML}"], as_json)
