"""The command line: LightningCLI's fit, validate, test and predict on run folders, and the project's own.

This is the composition root: the only module of graphalgo that imports the other packages, and only inside
functions.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

from graphalgo.errors import InputError

CONFIGS = Path(__file__).parent / "configs"
LIGHTNING_COMMANDS = ("fit", "validate", "test", "predict")

USAGE = """\
usage: graphalgo COMMAND [options]

Train a looped pair-state block on a graph-algorithm task, test it on larger graphs, see where it errs.

  graphalgo fit --config clrs/bellman_ford --run_dir runs/bf     train; the run folder holds all of it
  graphalgo fit --run_dir runs/bf --resume true      go on after a stop
  graphalgo validate --run_dir runs/bf        score on the validation graphs
  graphalgo test --run_dir runs/bf            score on the test sets, write predictions.parquet
  graphalgo predict --run_dir runs/bf --data.predict_graphs my.safetensors      answers for your own graphs
  graphalgo analyze runs/bf                   where it errs: tables and figures, after test
  graphalgo search roads.txt --from a --to b  the next vertex and the way, in a graph of your own
  graphalgo test --pretrained NAME            score weights that come with the package; also validate, predict
  graphalgo pretrained                        which those are
  graphalgo claims                            what the theory says and needs no training, checked
  graphalgo demo --run_dir runs/demo          the whole way on two tasks, in a few minutes
  graphalgo configs                           the configs that come with the package

Every setting of a config can be changed on the command line, for example
  --data.batch_size 64  --model.test_loops 16  --seed_everything 1  --trainer.max_steps 2000
`graphalgo COMMAND --help` explains each command and setting.
"""


def main(argv: list[str] | None = None) -> int:
    """Entry point of ``graphalgo``; returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0
    commands = {
        "analyze": _analyze,
        "demo": _demo,
        "configs": _configs,
        "pretrained": _pretrained,
        "search": _search,
        "claims": _claims,
    }
    if argv[0] not in commands and argv[0] not in LIGHTNING_COMMANDS:
        print(f"graphalgo: unknown command {argv[0]!r}\n\n{USAGE}", end="", file=sys.stderr)
        return 2
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)  # as `python -m` does; last, so that it hides nothing
    try:
        if argv[0] in commands:
            commands[argv[0]](argv[1:])
        else:
            lightning(argv[0], argv[1:])
    except InputError as error:
        print(f"graphalgo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("graphalgo: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def lightning(command: str, args: list[str], made_by: str | None = None) -> Any:
    """Runs fit, validate, test or predict with command-line arguments; returns the LightningCLI.

    A run that is started for something other than the user's own `fit` says so in its run.json.
    """
    _quiet()
    import clrs_bridge  # noqa: F401  (so that --help knows its data module)
    import search_bench  # noqa: F401
    from graphalgo.lightning_cli import GraphalgoCLI

    cli = GraphalgoCLI.run_command(command, list(args), made_by)
    if command == "test" and cli.datamodule.task == "search":
        from analysis.report import analyze_lookahead

        written = analyze_lookahead(cli.settings.run_dir)
        print(f"\n{len(written)} files in {Path(cli.settings.run_dir) / 'figures'}")
    return cli


def _quiet() -> None:
    """Leaves out the library notices that tell a user nothing they could act on."""
    import logging

    for message in (
        r"\s*By default only one JsonargparseDeprecationWarning",
        r"\s*(``|skip_none).*was deprecated in v4",  # names of jsonargparse that LightningCLI goes by
        r".*does not have many workers.*",
        r".*number of training batches.*smaller than the logging interval.*",
        r".*`isinstance\(treespec, LeafSpec\)` is deprecated.*",
        r".*Checkpoint directory .* exists and is not empty.*",
        r".*GPU available but not used.*",
        r".*callbacks used to create the checkpoint need to be provided.*",
        r".*You're using the WeightAveraging callback, but loading a checkpoint outside.*",
    ):
        warnings.filterwarnings("ignore", message)
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(logging.WARNING)
    logging.getLogger("lightning.fabric.utilities.seed").setLevel(logging.WARNING)


def resolve_arguments(command: str, args: list[str]) -> list[str]:
    """Finds configs by their short name, and the config of a run folder; lets lists replace the config's."""
    args, given = _afresh(args), False
    for at, arg in enumerate(args):
        if arg in ("--config", "-c") and at + 1 < len(args):
            args[at + 1], given = find_config(args[at + 1]), True
        elif arg.startswith("--config="):
            args[at], given = f"--config={find_config(arg.removeprefix('--config='))}", True
    pretrained = _option(args, "--pretrained")
    if pretrained is not None and command != "fit":
        from graphalgo.weights import find

        return ["--config", find_config(str(find(pretrained) / "config.yaml")), *args]
    starts = command == "fit" and (_option(args, "--resume") or "false").lower() == "false"
    if starts or given or "--help" in args or "-h" in args:
        return args
    run_dir = _option(args, "--run_dir")
    if run_dir is None:
        raise InputError(f"{command} needs a run folder: graphalgo {command} --run_dir RUN")
    config = Path(run_dir) / "config.yaml"
    if not config.is_file():
        raise InputError(
            f"{run_dir} is not a run folder: it has no config.yaml; train one with `graphalgo fit`"
        )
    return ["--config", find_config(str(config)), *args]


def _afresh(args: list[str]) -> list[str]:
    """Puts ``--data.tests null`` before every ``--data.tests [{...}]``, and so for ``--trainer.callbacks``.

    Without it, jsonargparse fills in what the list's entries leave out from the entries of the config's list.
    Lists of parts further within a model may not be null, and are new ones anyway.
    """
    out: list[str] = []
    for at, arg in enumerate(args):
        name, equals, value = arg.partition("=")
        value = value if equals else args[at + 1] if at + 1 < len(args) else ""
        if name.startswith("--") and value.lstrip().startswith("["):
            out += [name, "null"] if "{" in value and name.count(".") == 1 else []
        out.append(arg)
    return out


def _option(args: list[str], name: str) -> str | None:
    for at, arg in enumerate(args):
        if arg == name and at + 1 < len(args):
            return args[at + 1]
        if arg.startswith(name + "="):
            return arg.removeprefix(name + "=")
    return None


def find_config(name: str) -> str:
    """The path of a config: a file, or the short name of one that comes with the package."""
    from graphalgo.run import read_config

    if os.path.isfile(name):
        read_config(name)  # the parser would not say which file is damaged
        return name
    packaged = CONFIGS / f"{name.removesuffix('.yaml')}.yaml"
    if packaged.is_file():
        return str(packaged)
    close = difflib.get_close_matches(name.removesuffix(".yaml"), config_names(), n=3)
    hint = f"did you mean {', '.join(close)}?" if close else "`graphalgo configs` lists those"
    raise InputError(
        f"there is no config {name!r}: neither a file nor one that comes with the package; {hint}"
    )


def config_names() -> list[str]:
    """Short names of the configs that come with the package."""
    return sorted(path.relative_to(CONFIGS).with_suffix("").as_posix() for path in CONFIGS.rglob("*.yaml"))


def _configs(args: list[str]) -> None:
    """Prints the short name of each packaged config and the comment at its top."""
    argparse.ArgumentParser(prog="graphalgo configs", description="The configs of the package.").parse_args(
        args
    )
    for name in config_names():
        head = [line for line in (CONFIGS / f"{name}.yaml").read_text().splitlines() if line.startswith("#")]
        print(name)
        print("\n".join(f"    {line.lstrip('# ')}" for line in head))


def _pretrained(args: list[str]) -> None:
    """Prints the name of each set of weights in the package and the beginning of its card."""
    argparse.ArgumentParser(
        prog="graphalgo pretrained",
        description="The weights that come with the package: for `graphalgo test --pretrained NAME`, "
        "`graphalgo search --weights NAME`, and PairModule.from_pretrained.",
    ).parse_args(args)
    from graphalgo.weights import describe, names

    if not names():
        print("no weights come with this version")
    for name in names():
        print(f"{name}\n{textwrap.indent(describe(name), '    ')}")


def _search(args: list[str]) -> None:
    _quiet()
    import search_bench  # noqa: F401  (what configs name)
    from graphalgo.search import search

    search(args)


def _claims(args: list[str]) -> None:
    from analysis.claims.command import claims

    claims(args)


def _analyze(args: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="graphalgo analyze",
        description="Where a tested run errs: by iteration, depth, margin and so on. Writes RUN/figures.",
    )
    parser.add_argument("run_dir", help="run folder on which `graphalgo test` has run")
    run_dir = parser.parse_args(args).run_dir
    from analysis.report import analyze

    written = analyze(run_dir)
    print(f"\n{len(written)} files in {Path(run_dir) / 'figures'}; start with report.md")


def _demo(args: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="graphalgo demo",
        description="Trains bellman_ford and dfs on graphs of at most 16 vertices, tests them on CLRS-30's "
        "official graphs of 64 vertices and on graphs of 128, and draws where they err.",
    )
    parser.add_argument(
        "--run_dir", default="runs/demo", help="folder for the two run folders (default: %(default)s)"
    )
    parser.add_argument("--max_steps", type=int, help="training steps of each, for a quick try")
    options = parser.parse_args(args)
    from graphalgo.demo import demo

    demo(Path(options.run_dir), options.max_steps)


if __name__ == "__main__":
    sys.exit(main())
