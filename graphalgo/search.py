"""The command ``graphalgo search``: the next vertex, and the way, in a graph that a text file lists."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import networkx as nx
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from graphalgo import weights
from graphalgo.errors import InputError
from graphalgo.solver import DEFAULT, NextVertex, PathSolver

DESCRIPTION = """\
Asks a trained model which vertex comes next on the way from one vertex to another, and follows its answers
to the end.

The file has one edge a line, the names of two vertices with a space between them: `a b` is an edge from a
to b. From # on a line is a comment. For example, with this in roads.txt

  home bridge     # home -> bridge
  bridge market
  home park

`graphalgo search roads.txt --from home --to market` names bridge, and the route home, bridge, market.
"""

EPILOG = """\
Probabilities are the model's, over all vertices. The log walk weights say, for each channel of a propagator
layer, how much the walks of every length weigh between the current vertex and the candidate; no walk at all
is -667.7. Models are trained on directed graphs without cycles: others, undirected ones among them, get an
answer that nothing in the training vouches for. Whether the goal can be reached at all is checked exactly.
"""


def read_edge_list(path: str | Path, undirected: bool = False) -> nx.Graph:
    """The graph of a file with two names a line.

    Args:
        path: the file, in UTF-8; what follows # in a line is a comment.
        undirected: whether each line is an edge both ways.

    Raises:
        InputError: if the file cannot be read, lists no edge, or has a line with other than two names or with
            names that cannot be printed.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"cannot read the edge list {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text in UTF-8: {error}") from error
    graph = nx.Graph() if undirected else nx.DiGraph()
    for number, line in enumerate(lines, start=1):
        names = line.partition("#")[0].split()
        if names and len(names) != 2:
            raise InputError(
                f"{path}, line {number}: expected the names of two vertices, got {len(names)}: "
                f"{' '.join(names)!r}; leave out weights, and spaces in names"
            )
        if not all(name.isprintable() for name in names):
            raise InputError(f"{path}, line {number}: names with control characters: {' '.join(names)!r}")
        if names:
            graph.add_edge(*names)
    if not graph:
        raise InputError(f"{path} lists no edges; write one a line, as `a b`")
    return graph


def solver_of(name: str) -> PathSolver:
    """The solver of weights that come with the package, of a folder of such, or of a run folder."""
    if name not in weights.names() and (Path(name) / "checkpoints").is_dir():
        return PathSolver.from_run(name)
    try:
        folder = weights.find(name)
    except InputError as error:
        raise InputError(f"{error}; a run folder will do as well") from error
    return PathSolver.from_pretrained(folder)


def search(args: Sequence[str]) -> None:
    """Runs the command with its arguments."""
    parser = argparse.ArgumentParser(
        prog="graphalgo search",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("edges", metavar="FILE", help="edge list: two names a line")
    parser.add_argument("--from", dest="start", required=True, metavar="A", help="where the way begins")
    parser.add_argument("--to", dest="goal", required=True, metavar="B", help="where it is to end")
    parser.add_argument(
        "--weights",
        default=DEFAULT,
        metavar="NAME",
        help="weights that come with the package (see `graphalgo pretrained`), or a run folder of your own "
        "(default: %(default)s)",
    )
    parser.add_argument("--undirected", action="store_true", help="each line is an edge both ways")
    options = parser.parse_args(args)
    graph = read_edge_list(options.edges, options.undirected)
    solver = solver_of(options.weights)
    answer = solver.next_vertex(graph, options.start, options.goal)
    route = solver.route(graph, options.start, options.goal)
    console = Console(highlight=False, soft_wrap=True, emoji=False)
    console.print(_candidates(answer, options.start, options.goal))
    console.print(f"next vertex: {escape(answer.vertex)}")
    if answer.model_choice != answer.vertex:
        console.print(
            f"(The model itself prefers {escape(answer.model_choice)}, to which no edge leads from "
            f"{escape(options.start)}.)"
        )
    console.print(f"route: {escape(' -> '.join(route.vertices))}")
    console.print(f"       {escape(route.note)}")


def _candidates(answer: NextVertex, start: str, goal: str) -> Table:
    table = Table(title=f"From {escape(start)} on the way to {escape(goal)}")
    table.add_column("candidate")
    table.add_column("probability", justify="right")
    walks = answer.candidates[0].log_walk_weight is not None
    if walks:
        table.add_column("log walk weight, by channel", justify="right")
    for candidate in answer.candidates:
        row = [escape(candidate.vertex), f"{candidate.probability:.4f}"]
        table.add_row(*row, *([" ".join(f"{x:.1f}" for x in candidate.log_walk_weight)] if walks else []))
    return table
