"""The console command ``attnverify``: list, show, verify, sample, attack, replay,
conjecture, derivations, certificates, experiment, inspect.

Exit code 0: no check failed or stayed unknown; 1: some did; 2: wrong usage, or a run that could
not be finished; 130: interrupted. Listing and showing load neither torch nor sympy.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnverify import __version__
from attnverify.support import files
from attnverify.support.errors import InputError, RunError, nearest, require
from attnverify.support.vocabulary import KINDS, Kind
from attnverify.topics import PREFIXES, registry
from attnverify.verification import printing
from attnverify.verification.printing import out

if TYPE_CHECKING:
    from rich.console import Console

    from attnverify.checking.check import Inequality
    from attnverify.checking.search import Settings
    from attnverify.inspection.texts import Look
    from attnverify.verification.verify import Report

app = typer.Typer(
    name="attnverify",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
STDOUT = Path("-")
INTERRUPTED = 130

Kinds = StrEnum("Kinds", list(KINDS))


class Device(StrEnum):
    """Where to compute."""

    cpu = "cpu"
    cuda = "cuda"


Ids = Annotated[
    list[str] | None,
    typer.Argument(
        help="Claim ids, globs or Python files that state claims; all of the book if omitted."
    ),
]
Claims = Annotated[
    list[Path] | None, typer.Option("--claims", help="Python file of claims; may be repeated.")
]
Scheduler = Annotated[str | None, typer.Option(help="Address of a dask scheduler.")]
Jobs = Annotated[int | None, typer.Option(help="Local processes (default: cores).", min=1)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Seed = Annotated[int, typer.Option(help="Equal seeds give equal evidence.", min=0)]


def main() -> None:
    """Run the command; what kept it from running is told in one line on stderr, exit code 2."""
    printing.start()
    try:
        try:
            app()
        finally:
            printing.flush()
    except (InputError, RunError, OSError) as error:  # OSError: a disk, a file, not the code
        printing.error(error)
        sys.exit(2)


def _version(asked: bool | None) -> None:
    if asked:
        out.print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool | None,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = None,
) -> None:
    """Check the claims of the book Attention, Verified."""


@app.command("list")
def list_claims(ids: Ids = None, as_json: Json = False) -> None:
    """List the claims: id, kind, title, source."""
    claims = registry.select(_brought_in(ids or []))
    if as_json:
        rows = [{"id": c.id, "kind": c.kind, "title": c.title, "source": c.source} for c in claims]
        print(printing.as_json(rows))
        return
    table = printing.table("id", "kind", "title", "source")
    for c in claims:
        table.add_row(c.id, c.kind, c.title, c.source)
    out.print(table)


@app.command()
def show(
    id: Annotated[str, typer.Argument(help="Claim id.")],
    checks: Annotated[
        bool, typer.Option("--checks", help="Also its checks and false twins (slower).")
    ] = False,
    claims: Claims = None,
) -> None:
    """Show one claim: statement, source, what it rests on, its notebook."""
    claim = registry[_one(id, claims)]
    out.print(f"[bold]{claim.id}[/bold]  ({claim.kind})\n{claim.title}\n")
    out.print(claim.statement.strip(), markup=False)
    out.print(f"\nsource     {claim.source}", markup=False)
    out.print(
        f"book says  the statement {claim.asserts}"
        + (f"; corrected by {claim.corrected_by}" if claim.corrected_by else ""),
        soft_wrap=True,
    )
    out.print(f"rests on   {', '.join(claim.uses) or 'nothing'}")
    out.print(
        f"stated in  {claim.notebook}"
        if claim.id.split(".")[0] not in PREFIXES
        else f"notebook   notebooks/{claim.notebook}.md"
    )
    _show_proofs(id)
    if checks:
        _show_checks(id)
    else:
        out.print(f"checks     attnverify show {id} --checks", highlight=False)


def _brought_in(arguments: list[str], limit: float | None = None) -> list[str]:
    """The ids and globs among the arguments; what names claims from outside brings them in."""
    if all(
        argument.split(".")[0] in PREFIXES and not argument.endswith(".py")
        for argument in arguments
    ):
        return arguments  # of the book: nothing more to load
    from attnverify.verification import claim_files

    seconds = claim_files.LIMIT if limit is None else limit
    return [id for argument in arguments for id in claim_files.ask(argument, seconds)]


def _one(id: str, claims: list[Path] | None) -> str:
    """An id, after the files of claims were brought in."""
    _brought_in([str(path) for path in claims or []])
    _brought_in([id])
    if id not in registry and id.split(".")[0] not in PREFIXES:
        raise InputError(
            f"id: got {id!r}, expected a claim id{nearest(id, registry)}; the file of a claim from "
            "outside is named by --claims FILE"
        )
    return id


def _show_proofs(id: str) -> None:
    """The formal theorems of a claim, with their statements; nothing where it has none."""
    from attnverify.verification import formal

    for record in formal.evidence_of(id)[0]:
        passed = record.outcome == "pass"
        words = f"machine-checked, {formal.prover()}" if passed else f"not checked: {record.detail}"
        out.print(f"formal     {record.check}: {words}", markup=False)
        out.print(f"           {record.limits}", markup=False, highlight=False, soft_wrap=True)
        for line in formal.statement(record.check).splitlines():
            out.print(f"           {line}", markup=False, highlight=False, soft_wrap=True)


def _show_checks(id: str) -> None:
    """The checks themselves are asked, which loads what they compute with."""
    from attnverify.verification.claim_files import checks_here

    table = printing.table("check", "form", "evidence", "false twins that it must reject")
    for name, check in checks_here(id).items():
        twins = "; ".join(t.title for t in check.twins) or "(run with the claim's other checks)"
        table.add_row(name, type(check).__name__.lower(), ", ".join(check.kinds), twins)
    out.print(table)
    if registry[id].derived:
        out.print("The derivation in the notebook has false twins of its own.", markup=False)


@app.command()
def verify(
    ids: Ids = None,
    evidence: Annotated[
        list[Kinds] | None, typer.Option(help="Only this kind of evidence; may be repeated.")
    ] = None,
    samples: Annotated[int, typer.Option(help="Random instances a check.", min=1)] = 2000,
    restarts: Annotated[int, typer.Option(help="Starts of every attack.", min=1)] = 24,
    steps: Annotated[int, typer.Option(help="Gradient steps of every attack.", min=1)] = 300,
    seed: Seed = 0,
    device: Annotated[Device, typer.Option(help="Where to search.")] = Device.cpu,
    scheduler: Scheduler = None,
    jobs: Jobs = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            help="Write the report here, - for standard output. Replaces reports only.",
        ),
    ] = None,
    notebooks: Annotated[
        Path | None, typer.Option(help="Run the derivations of this folder's notebooks.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Gather again what was gathered before.")
    ] = False,
    limit: Annotated[
        float, typer.Option(help="Seconds for a piece of a claim from outside.", min=1)
    ] = 600,
) -> None:
    """Gather evidence for the claims and all they rest on, run the twins, derive the statuses.

    Ctrl-C ends the run and reports what was gathered until then.
    """
    if json_file is not None and json_file != STDOUT:
        files.require_writable("json", json_file)
    _require_device(device)
    from attnverify.checking.search import Settings
    from attnverify.runtime.cache import default

    asked = _brought_in(ids or [], limit)
    report = _gathered(
        asked,
        Settings(samples, restarts, steps, seed, str(device)),
        [kind for kind in KINDS if not evidence or kind in evidence],
        scheduler=scheduler,
        jobs=jobs,
        notebooks_folder=notebooks,
        store=None if fresh else default(),
        limit=limit,
    )
    _hand_over(report, json_file, added=len(report.claims) - len(registry.select(asked)))
    raise typer.Exit(INTERRUPTED if report.interrupted else 0 if report.as_claimed else 1)


def _gathered(asked: list[str], settings: Settings, kinds: list[Kind], **options: Any) -> Report:
    """The report, under a bar of the pieces; after an interrupt what was gathered until then."""
    from attnverify.verification.verify import Interrupted, tasks_in
    from attnverify.verification.verify import verify as run

    with printing.progress_bar() as bar:
        task = bar.add_task("checking", total=tasks_in(asked, kinds))

        def advance(name: str) -> None:
            bar.update(task, advance=1, description=name)

        try:
            return run(asked, settings, kinds, progress=advance, **options)
        except Interrupted as stopped:
            return stopped.report


def _hand_over(report: Report, json_file: Path | None, added: int) -> None:
    """Write the report and print it; added: how many claims were not asked for.

    If it cannot be written, standard output gets what the file was to hold.
    """
    failure = None
    if json_file is not None and json_file != STDOUT:
        text = json.dumps(report.as_json(), indent=1, ensure_ascii=False) + "\n"
        try:
            files.write_text(json_file, text)
        except OSError as error:
            failure = error
    on_stdout = json_file == STDOUT or failure is not None
    if on_stdout:
        print(printing.as_json(report.as_json()))
    to = printing.errors if on_stdout else out
    printing.print_report(report, to)
    if added:
        to.print(f"{added} of them were not asked for: the others rest on them", markup=False)
    if failure is not None:
        raise failure


@app.command()
def sample(
    id: Annotated[str, typer.Argument(help="Claim id.")],
    folder: Annotated[Path, typer.Option("--out", help="Folder of the pieces and the report.")],
    samples: Annotated[int, typer.Option(help="Random instances a check.", min=1)] = 10**9,
    piece: Annotated[int, typer.Option(help="So many of them at a time.", min=1)] = 10**6,
    seed: Seed = 0,
    scheduler: Scheduler = None,
    jobs: Jobs = None,
    as_json: Json = False,
    claims: Claims = None,
) -> None:
    """Sample a claim for hours, in pieces; the same command goes on where a run was ended.

    Piece k, counted from 1, finds what this does: verify CLAIM --evidence sampled --samples PIECE
    --seed SEED+k-1.
    """
    _one(id, claims)
    from attnverify.verification import long_sampling as run

    plan = run.Plan(id, samples, piece, seed)
    files.require_writable("out", folder / run.REPORT)
    with _pieces(plan.pieces) as finished:

        def told(name: str, result: Any) -> None:
            finished(name, result)
            for line in run.violations(result):
                printing.errors.print(f"fail: {name}, {line}", markup=False, style="red")

        report = run.sample(plan, folder, scheduler=scheduler, jobs=jobs, finished=told)
    printing.print_samples(report, printing.errors if as_json else out)
    if as_json:
        print(printing.as_json(report))
    raise typer.Exit(0 if report["outcome"] == "pass" else 1)


@contextmanager
def _pieces(total: int) -> Iterator[Callable[[str, Any], None]]:
    """A bar of pieces; an interrupt ends the run and says how it goes on."""
    try:
        with printing.progress_bar() as bar:
            task = bar.add_task("pieces", total=total)
            yield lambda name, result: bar.update(task, advance=1, description=name)
    except KeyboardInterrupt:
        words = "interrupted; finished pieces are kept: the same command goes on"
        printing.errors.print(words, markup=False)
        raise typer.Exit(INTERRUPTED) from None


@app.command()
def attack(
    id: Annotated[str, typer.Argument(help="Claim id.")],
    check: Annotated[str | None, typer.Option(help="Name of one inequality of the claim.")] = None,
    restarts: Annotated[int, typer.Option(min=1)] = 64,
    steps: Annotated[int, typer.Option(min=1)] = 500,
    seed: Seed = 0,
    device: Annotated[Device, typer.Option()] = Device.cpu,
    save: Annotated[
        Path | None, typer.Option(help="Save the worst instance here. Replaces instances only.")
    ] = None,
    claims: Claims = None,
) -> None:
    """Search for a counterexample to a claim; the worst instance can be saved and replayed."""
    if save is not None:
        files.require_writable("save", save)
    from attnverify.checking.search import Settings
    from attnverify.checking.search import attack as search
    from attnverify.verification import replay as instances

    _require_device(device)
    name, inequality = _inequality(_one(id, claims), check)
    settings = Settings(restarts=restarts, steps=steps, seed=seed, device=str(device))
    with printing.progress_bar() as bar:
        task = bar.add_task(f"attacking {id}", total=(steps + 1) * len(inequality.sizes))
        found = search(inequality, settings, f"{id}/{name}", lambda n: bar.update(task, advance=n))
    ratio = "none decided" if found.ratio is None else f"{found.ratio:.10f}"
    out.print(
        f"{id} ({name}): {found.outcome}, largest left/right {ratio} "
        f"in {found.decided} decided instances, all sizes together",
        highlight=False,
    )
    if found.detail:
        out.print(found.detail, markup=False)
    if save is not None and found.instance is not None:
        instances.save(save, id, name, found.instance)
        named = "".join(f" --claims {path}" for path in claims or [])
        words = f"saved to {save}; recheck with: attnverify replay {save}{named}"
        out.print(words, markup=False, soft_wrap=True)
    raise typer.Exit(0 if found.outcome == "pass" else 1)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A file that attack --save wrote.")],
    export: Annotated[
        Path | None,
        typer.Option("--export", help="Also write it as a certificate for tools/recheck.py."),
    ] = None,
    claims: Claims = None,
) -> None:
    """Recheck a saved instance from scratch in ball arithmetic."""
    _brought_in([str(path) for path in claims or []])
    from attnverify.verification import certificate_export as certificates
    from attnverify.verification import replay as instances

    if export is not None:
        certificates.write_saved(file, export)
        out.print(
            f"certificate in {export}; for another arithmetic: tools/recheck.py", markup=False
        )
    claim, name, seen = instances.replay(file)
    words = {
        "pass": "left <= right",
        "fail": "left > right: a counterexample",
        "unknown": "unknown",
    }
    equal = seen.outcome == "unknown" and seen.attained
    verdict = "equality to within 2^-40" if equal else words[seen.outcome]
    out.print(f"{claim} ({name}): {verdict}; hypotheses: {seen.hypotheses}", highlight=False)
    out.print(
        f"left/right = {seen.ratio.str(20)}, 1 - left/right = {(1 - seen.ratio).str(3)} "
        f"at {seen.bits} bits",
        markup=False,
        highlight=False,
    )
    raise typer.Exit(0 if seen.outcome == "pass" or seen.attained else 1)


@app.command()
def conjecture(
    file: Annotated[Path, typer.Argument(help="Python file with left, right and SIZES.")],
    restarts: Annotated[int, typer.Option(min=1)] = 32,
    steps: Annotated[int, typer.Option(min=1)] = 600,
    seed: Seed = 0,
    save: Annotated[
        Path | None, typer.Option("--out", help="Write the claim to this file, which is not there.")
    ] = None,
    as_json: Json = False,
    limit: Annotated[float, typer.Option(help="Seconds for the search.", min=1)] = 600,
) -> None:
    """Search for the best constant C of left <= C right, and propose a number of simple form."""
    if save is not None:
        require(not save.exists(), "out", f"{save}, which is there", "a new file")
        files.require_writable("out", save)
    from attnverify.checking.search import Settings
    from attnverify.verification import conjecture_file

    with printing.progress_bar() as bar:
        bar.add_task(f"searching {file.name}", total=None)
        settings = Settings(restarts=restarts, steps=steps, seed=seed)
        answer = conjecture_file.answer(file, settings, limit)
    found = answer.constant
    if as_json:
        print(printing.as_json(found.as_json()))
    else:
        words = f"{found} ({found.instances:,} instances, {found.seconds:.1f} s)"
        out.print(words, markup=False, highlight=False, soft_wrap=True)
    if save is not None:
        files.write_text(save, answer.require_claim())
        to = printing.errors if as_json else out
        words = f"claim in {save}; check it with: attnverify verify {save}"
        to.print(words, markup=False, soft_wrap=True)
    raise typer.Exit(0 if found.proposal else 1)


@app.command()
def derivations(
    names: Annotated[
        list[str] | None, typer.Argument(help="Notebooks, as softmax; all if omitted.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Record them, after somebody read what differs.")
    ] = False,
) -> None:
    """Compare the derivations, step by step, with those that were read and recorded."""
    from attnverify.derivation import record_review

    same = record_review.run(names or [], write, lambda line: print(line, flush=True))
    raise typer.Exit(0 if same else 1)


@app.command()
def certificates(
    folder: Annotated[Path, typer.Option("--out", help="New or empty folder to write to.")],
    ids: Ids = None,
) -> None:
    """Write certificates as files that tools/recheck.py evaluates in another arithmetic."""
    from attnverify.verification import certificate_export as export

    index = export.write(ids or [], folder)
    files, left_out = len(index["files"]), len(index["not exported"])
    out.print(f"{files} certificates in {folder}; {left_out} not exported: see index.json")


@app.command()
def experiment(
    name: Annotated[str | None, typer.Argument(help="Experiment; lists them if omitted.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The setting of the chapters; some do not judge it.")
    ] = False,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.cpu,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal tables.", min=0)] = 0,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder to write to (default attnverify-NAME).")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Folder with a model of yours, where one is taken.")
    ] = None,
    text: Annotated[Path | None, typer.Option(help="Text file of yours, likewise.")] = None,
) -> None:
    """Measure again what the book reports; a run that was interrupted goes on where it was.

    Exit code 1 if the criterion comes out otherwise than the book says, or stays undecided; 0 for
    a quick run of an experiment that is judged in full only, which says so.
    """
    from attnverify.experiments import Settings, find
    from attnverify.experiments.engine import command

    if name is None:
        command.show_all(out)
        return
    _require_device(device)
    folder = folder or Path(f"attnverify-{find(name).name}")
    files.require_writable("out", folder / f"{name}.json")
    settings = Settings(quick=quick, seed=seed, device=str(device), model=model, text=text)
    agrees = command.run(name, settings, folder, out, printing.errors)
    raise typer.Exit(0 if agrees else 1)


class Precision(StrEnum):
    """What a model runs in."""

    float32 = "float32"
    float64 = "float64"


@app.command("inspect")
def inspect_model(
    model: Annotated[Path, typer.Argument(help="Folder with config.json and safetensors.")],
    text: Annotated[Path | None, typer.Option(help="Text file; a shipped text if omitted.")] = None,
    tokens: Annotated[Path | None, typer.Option(help="File of token ids instead.")] = None,
    texts: Annotated[
        list[Path] | None,
        typer.Option(help="Many texts: a folder of .txt, a file with one a line. Repeatable."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="For page, JSON, CSV, figures; JSON and CSV of --texts."),
    ] = None,
    as_json: Json = False,
    layers: Annotated[str | None, typer.Option(help='Layers to report, as "1,3-5".')] = None,
    dtype: Annotated[Precision, typer.Option(help="What the model runs in.")] = Precision.float64,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.cpu,
    brief: Annotated[
        bool, typer.Option("--brief", help="Only shares and residuals: sooner.")
    ] = False,
    scheduler: Scheduler = None,
    jobs: Jobs = None,
) -> None:
    """Trace a model of yours, prove the trace, and say what the theorems say about it.

    Nothing is downloaded, no code of the folder runs. With --texts there is a report a text and a
    table over all of them; the same command goes on where a run was ended.
    """
    _require_device(device)
    from attnverify.inspection import command
    from attnverify.inspection.words import summary

    if texts:
        if folder is None:
            raise InputError("out: got none, expected a folder, which --texts needs")
        require(text is None and tokens is None, "texts", "another text too", "--texts alone")
        from attnverify.inspection.texts import look_of

        look = look_of(model, layers, dtype, device, brief)
        _inspect_texts(look, texts, folder, scheduler, jobs, as_json)
        return
    alone = scheduler is None and jobs is None
    require(alone, "scheduler or jobs", "one of them", "them with --texts alone")

    if folder is not None:
        command.require_own(folder)
    with _layers() as advance:
        report = command.inspect_folder(model, text, tokens, layers, dtype, device, brief, advance)
    if folder is not None:
        command.write(report, folder)
    to = _tell(report.as_json(), summary(report), as_json)
    if folder is not None:
        to.print(f"page in {folder / command.HTML}", markup=False, highlight=False)


@contextmanager
def _layers() -> Iterator[Callable[[str, float], None]]:
    """A bar that a run over a model's layers advances; the first word is of the memory it needs."""
    with printing.progress_bar() as bar:
        task = bar.add_task("reading", total=100)

        def advance(what: str, share: float) -> None:
            if share == 0:
                printing.errors.print(f"memory: {what}", markup=False, highlight=False)
            bar.update(task, completed=100 * share, description=what)

        yield advance


def _tell(found: dict[str, Any], lines: list[str], as_json: bool) -> Console:
    """Print the lines of a report, and before them its JSON if asked; returns where to go on."""
    to = printing.errors if as_json else out
    if as_json:
        print(printing.as_json(found))
    for line in lines:
        to.print(line, markup=False, highlight=False, soft_wrap=True)
    return to


def _inspect_texts(
    look: Look,
    paths: list[Path],
    folder: Path,
    scheduler: str | None,
    jobs: int | None,
    as_json: bool,
) -> None:
    from attnverify.inspection import texts

    texts.require_own(folder)
    campaign = texts.campaign(look, texts.read(paths))
    with _pieces(len(campaign.tasks)) as finished:
        report = texts.inspect_texts(
            campaign, folder, scheduler=scheduler, jobs=jobs, finished=finished
        )
    to = _tell(report, texts.lines(report), as_json)
    to.print(f"tables in {folder / texts.REPORT}", markup=False, highlight=False)


def _inequality(id: str, name: str | None) -> tuple[str, Inequality]:
    from attnverify.checking.check import Inequality
    from attnverify.verification.claim_files import checks_here

    found = {n: c for n, c in checks_here(id).items() if isinstance(c, Inequality)}
    if not found:
        raise InputError(
            f"id: got {id!r}, which has no inequality to attack, expected one that has"
        )
    if name is not None and name not in found:
        raise InputError(f"check: got {name!r}, expected one of {sorted(found)}")
    name = name or next(iter(found))
    return name, found[name]


def _require_device(device: Device) -> None:
    if device is Device.cuda:
        import torch

        if not torch.cuda.is_available():
            raise InputError("device: got 'cuda', expected a machine with a CUDA device (or 'cpu')")


if __name__ == "__main__":
    main()
