"""`probsym`: list, train, evaluate, analyse, inspect, picture, table, report, check, demo. The work is in `lab`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from probsym.errors import ProbsymError, RecipeError, RunError, Stopped

if TYPE_CHECKING:
    from probsym.lab.engine import Engine

app = typer.Typer(
    help="Probabilistic symmetrization: run the paper's experiments.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console()
errors = Console(stderr=True)


def _version(wanted: bool) -> None:
    if wanted:
        from probsym import __version__

        console.print(f"probsym {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the program itself."""


Results = Annotated[Path, typer.Option(help="Folder of result files.")]
Precision = Annotated[str, typer.Option(help="32-true, tf32 or bf16-mixed.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


def _one_of(folder: str) -> str:
    """The names of analyses or pictures: their files, one each, so that help need not import them."""
    files = (Path(__file__).parent / "lab" / folder).glob("*.py")
    names = sorted(file.stem for file in files if file.stem not in ("__init__", "analysis", "picture"))
    return f"{', '.join(names[:-1])} or {names[-1]}"


@app.command("list")
def list_recipes(results: Results = Path("results")) -> None:
    """List every row of every table of the paper: recipe, the paper's number, ours, status."""
    from probsym.lab.paper import listed_rows
    from probsym.lab.recipe_names import RECIPE_NAMES
    from probsym.lab.results import read_results
    from probsym.lab.tables import listing

    _say_if_absent(results)
    _wide().print(listing(read_results(results), RECIPE_NAMES))
    listed = listed_rows()
    console.print(
        f"Besides: {', '.join(name for name in RECIPE_NAMES if name not in listed)}", highlight=False, soft_wrap=True
    )


@app.command()
def train(
    recipe: Annotated[
        list[str],
        typer.Argument(help="Name from `probsym list`, such as exp-classify/mlp-ps; exp/* for all of a task."),
    ],
    set: Annotated[list[str] | None, typer.Option(help="key=value: change a setting of the recipe.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="May be given several times; 0 if not given.")] = None,
    resume: Annotated[bool, typer.Option(help="Continue interrupted runs; skip finished ones.")] = False,
    device: Device = "auto",
    processes: Annotated[
        int | None, typer.Option(min=1, help="Number of processes; 1, or as started by torchrun or srun, if not given.")
    ] = None,
    precision: Precision = "32-true",
    compile: Annotated[bool, typer.Option(help="Compile the forward pass.")] = False,
    capture: Annotated[bool, typer.Option(help="Run whole steps as CUDA graphs.")] = False,
    checkpoint_every: Annotated[float, typer.Option(min=0, help="Seconds between checkpoints; 0: every step.")] = 60.0,
    keep_every: Annotated[
        int | None,
        typer.Option(min=1, help="Save weights in RUN/weights every so many epochs, and after the last."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs"),
    results: Annotated[Path | None, typer.Option(help="Folder where results are also written.")] = None,
) -> None:
    """Train recipes, one after the other, each for all seeds. Runs survive interruption; use --resume."""
    from probsym.lab.known_names import matching
    from probsym.lab.recipes import RECIPES
    from probsym.lab.run import Options, run

    options = Options(device, processes, precision, compile, capture, checkpoint_every, keep_every)
    for chosen in matching(recipe, RECIPES, "recipe"):
        outcomes = run(
            chosen,
            seed or [0],
            out,
            changes=set or [],
            options=options,
            resume=resume,
            results=results,
            console=console,
        )
        for result in outcomes:
            shown = Table("metric", "ours", "paper", title=f"{result['row']}, seed {result['seed']}")
            for name, value in result["metrics"].items():
                shown.add_row(name, f"{value:.6g}", f"{result['paper'][name]:g}" if name in result["paper"] else "")
            console.print(shown)


@app.command()
def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    samples: Annotated[int | None, typer.Option(min=1, help="Draws; as in the run if not given.")] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Evaluations with independent draws; as in the run, or one, if not given.")
    ] = None,
    device: Device = "auto",
    precision: Precision = "32-true",
) -> None:
    """Test a finished run again, or with another number of draws."""
    from dataclasses import replace

    from probsym.lab.final_test import report_on_test

    result, engine = _finished(folder, device, precision)
    engine.settings = replace(engine.settings, test_repeats=repeats or max(1, engine.settings.test_repeats))
    if samples is not None:
        engine.settings = replace(engine.settings, test_samples=samples)
    shown = Table("metric", "now", "in the run", title=f"{result['row']}, seed {result['seed']}")
    for name, value in report_on_test(engine, result["seed"], "").items():
        before = result["metrics"].get(name)
        shown.add_row(name, f"{value:.6g}", "" if before is None else f"{before:.6g}")
    console.print(shown)


@app.command()
def analyse(
    name: Annotated[str, typer.Argument(help=f"{_one_of('analyses')}.")],
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN...", help="Folders of finished runs; none for inner_symmetry.")
    ] = None,
    examples: Annotated[int | None, typer.Option(min=1, help="Number of examples; all if not given.")] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Draws, at most; by default as in the paper, else 200.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Repeats with new draws; by default as in the paper, else 5.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the draws; 0 if not given.")] = None,
    device: Device = "auto",
    results: Annotated[Path | None, typer.Option(help="Folder where the rows are written, beside results.")] = None,
) -> None:
    """Analyse trained runs: how errors, variances and distributions depend on draws, epochs or moved inputs.

    Of --examples, --samples, --repeats and --seed, those that an analysis does not use are refused.
    """
    from probsym.lab.analyses import ANALYSES, STUDIES, questions_for, questions_of
    from probsym.lab.analyses.analysis import analysis_path, study, write_analysis
    from probsym.lab.known_names import closest
    from probsym.lab.progress import shown
    from probsym.lab.run import Options, make_fabric

    analysis = closest(name, {**ANALYSES, **STUDIES}, "analysis")
    _check_runs(name, folders, needed=name in ANALYSES)
    questions = questions_for(name, examples=examples, samples=samples, repeats=repeats, seed=seed)
    places: list[Path | None] = [*folders] if folders else [None]
    for folder in places:
        result, subject = _finished(folder, device) if folder else (study(questions), make_fabric(Options(device)))
        title = f"{result['row']}, seed {result['seed']}: {name}"
        if results is not None:
            analysis_path(results, name, result)  # refused before anything is computed
        with shown(console, title) as show:
            rows = analysis(subject if folder else subject.device, questions, show)
        _print_rows(title, rows)
        if results is not None:
            path = write_analysis(results, name, result, rows, questions_of(name, questions), subject.device)
            console.print(f"Written: {path}", markup=False, soft_wrap=True)


@app.command()
def inspect(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    stderr: Annotated[float | None, typer.Option(help="Wanted standard error of a prediction.")] = None,
    examples: Annotated[int, typer.Option(min=1, help="Number of test examples.")] = 100,
    samples: Annotated[int, typer.Option(min=1, help="Draws, at most.")] = 100,
    repeats: Annotated[int, typer.Option(min=2, help="Repeats with new draws.")] = 5,
    device: Device = "auto",
) -> None:
    """Describe a trained model: symmetry, variance, spread of p(g|x), time, and how many draws to use."""
    from probsym.lab.analyses.analysis import Questions
    from probsym.lab.inspection import inspected, suggested_samples
    from probsym.lab.progress import shown

    result, engine = _finished(folder, device)
    tables = {}
    with shown(errors, f"{result['row']} seed {result['seed']}") as show:
        for title, rows in inspected(engine, Questions(examples, samples, repeats), show):
            tables[title] = rows
            _print_rows(title, rows)
    for rows in tables.values():
        if stderr is not None and "variance" in rows[0]:
            count = suggested_samples(rows, stderr)
            console.print(f"For a standard error of {stderr:g}: eval_samples={count}", soft_wrap=True)


@app.command()
def picture(
    name: Annotated[str, typer.Argument(help=f"{_one_of('pictures')}.")],
    out: Annotated[Path, typer.Option(help="File of the picture; its extension sets the format.")],
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN...", help="Folders of finished runs; none for inner_symmetry.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Number of test inputs shown.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    device: Device = "auto",
) -> None:
    """Make a picture of predictions for particles, of the group elements that runs draw, or of symmetric graphs."""
    from probsym.lab.known_names import closest
    from probsym.lab.pictures import PICTURES, SKETCHES
    from probsym.lab.pictures.picture import check_place, save
    from probsym.lab.run import Options, make_fabric

    closest(name, {**PICTURES, **SKETCHES}, "picture")
    _check_runs(name, folders, needed=name in PICTURES)
    check_place(out)  # before anything is computed
    engines = {}
    for folder in folders or []:
        result, engine = _finished(folder, device)
        engines[result["row"] if result["row"] not in engines else f"{result['row']} ({folder})"] = engine
    if name in SKETCHES:
        figure = SKETCHES[name](make_fabric(Options(device)).device, seed)
    else:
        figure = PICTURES[name](engines, count, seed)
    save(figure, out)
    console.print(f"Picture: {out}", markup=False, soft_wrap=True)


@app.command("table")
def show_table(
    number: Annotated[int, typer.Argument(help="Number in the paper: 1, 2, 3, 4, 7 or 8.")],
    results: Results = Path("results"),
    set: Annotated[
        list[str] | None, typer.Option(help="key=value: runs with exactly these settings changed, such as samples=5.")
    ] = None,
) -> None:
    """Print a table of the paper with our numbers beside it."""
    from probsym.lab.recipe import changes
    from probsym.lab.results import read_results
    from probsym.lab.tables import controls, table

    _say_if_absent(results)
    by_row = read_results(results)
    wide = _wide()
    changed = changes(set or [])
    wide.print(table(number, by_row, changed))
    beside = controls(number, by_row, changed)
    if beside is not None:
        wide.print(beside)


@app.command()
def report(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN...]",
            help="Finished runs, or folders of runs, with their files under --results. All results if not given.",
        ),
    ] = None,
    results: Results = Path("results"),
    out: Annotated[Path, typer.Option(help="File of the page, which must not exist yet.")] = Path("report.html"),
    markdown: Annotated[
        Path | None, typer.Option(help="File of the same tables as Markdown; beside the page if not given.")
    ] = None,
) -> None:
    """Write one page about all results, or some runs: tables, curves, figures, costs, and where each number is from."""
    from probsym.lab.report import check_places, load_results, load_runs, write_report

    check_places(out, markdown)  # before anything is read
    page, tables = write_report(load_runs(runs, results) if runs else load_results(results), out, markdown)
    console.print(f"Report: {page}", markup=False, soft_wrap=True)
    console.print(f"Markdown: {tables}", markup=False, soft_wrap=True)


@app.command()
def check() -> None:
    """Check the installation: versions, devices, data and their checksums."""
    from probsym.lab.check import checks

    missing = 0
    shown = Table("what", "", "found")
    for what, there, finding in checks():
        shown.add_row(what, {True: "ok", False: "missing", None: "not yet"}[there], finding)
        missing += there is False
    console.print(shown)
    if missing:
        raise typer.Exit(1)


@app.command()
def demo(
    epochs: Annotated[int, typer.Option(min=1, help="Training epochs for each method.")] = 15,
    out: Annotated[Path | None, typer.Option(help="Folder of the report; runs/demo-DATE if not given.")] = None,
) -> None:
    """Train one MLP under three symmetrizations on graphs that message passing cannot tell apart: a few minutes."""
    from probsym.lab.demo import demonstrate

    demonstrate(epochs, out, console)


def main() -> None:
    """The command line: errors of our own and the system's in one line, exit code 1, or 2 for unknown names.

    130 for Ctrl-C.
    """
    try:
        code = app(standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except RecipeError as error:
        _fail(str(error), 2)
    except Stopped as stop:
        _fail(f"Interrupted: {stop}", 130)
    except (ProbsymError, OSError) as error:
        _fail(f"{type(error).__name__}: {error}", 1)
    except Exception as error:
        if not hasattr(error, "exit_code"):
            raise
        if hasattr(error, "show"):  # a wrong option or argument, which the parser can explain
            error.show()
        raise SystemExit(error.exit_code) from error
    if code == 130:
        _fail("Interrupted", 130)
    if isinstance(code, int) and code:
        raise SystemExit(code)


def _finished(folder: Path, device: str, precision: str = "32-true") -> tuple[dict[str, Any], Engine]:
    """The result of a finished run, and its engine."""
    from probsym.lab.known_names import closest
    from probsym.lab.recipes import RECIPES
    from probsym.lab.run import Options, load_run, read_run

    result = read_run(folder)
    return result, load_run(folder, closest(result["row"], RECIPES, "recipe"), Options(device, precision=precision))


def _check_runs(name: str, folders: list[Path] | None, *, needed: bool) -> None:
    if needed != bool(folders):
        wanted = "one run or more" if needed else "no run"
        raise RunError(f"Expected {wanted} for {name} (got {len(folders or [])})")


def _say_if_absent(results: Path) -> None:
    if not results.is_dir():
        errors.print(f"No results: there is no folder {results}", highlight=False, markup=False, soft_wrap=True)


def _print_rows(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table(*rows[0], title=title)
    for row in rows:
        table.add_row(*(f"{value:.5g}" if isinstance(value, float) else str(value) for value in row.values()))
    _wide().print(table)


def _wide() -> Console:
    """For tables: where nobody watches, there is room."""
    return console if console.is_terminal else Console(width=160)


def _fail(message: str, code: int) -> NoReturn:
    errors.print(message, highlight=False, markup=False, soft_wrap=True)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
