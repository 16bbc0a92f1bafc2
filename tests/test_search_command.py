"""graphalgo search: the next vertex and the way in a graph of a text file, and clear errors."""

import networkx as nx
import pytest

from graphalgo import InputError, PathSolver, weights
from graphalgo.cli import main
from graphalgo.search import read_edge_list
from tests import tiny_search

ROADS = """\
# roads of a town
home bridge     # over the river

\tbridge   market
home park
park pond
"""


@pytest.fixture(autouse=True)
def package(tmp_path_factory, monkeypatch):
    """The package with weights that are always right, under the default name."""
    folder = tmp_path_factory.getbasetemp() / "package"
    if not folder.exists():
        tiny_search.hand_set_weights(folder / "search_propagator")
    monkeypatch.setattr(weights, "FOLDER", folder)
    return folder


@pytest.fixture
def roads(tmp_path):
    path = tmp_path / "roads.txt"
    path.write_text(ROADS)
    return path


@pytest.fixture
def refused(capsys):
    """Runs the command, which must fail with status 2 and one line or two."""

    def refused(*arguments):
        assert main(["search", *map(str, arguments)]) == 2
        printed = capsys.readouterr()
        assert printed.out == "" and printed.err.startswith("graphalgo: ") and "Traceback" not in printed.err
        return printed.err

    return refused


def ask(capsys, *arguments):
    assert main(["search", *map(str, arguments)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def test_next_vertex_and_route_are_told(roads, capsys):
    printed = ask(capsys, roads, "--from", "home", "--to", "market")
    first, second = (line for line in printed.splitlines() if line.startswith("│"))
    assert "bridge" in first and "park" in second and "-667.7" in second and "-667.7" not in first
    answer = PathSolver.from_pretrained().next_vertex(read_edge_list(roads), "home", "market")
    assert f"{answer.candidates[0].probability:.4f}" in first
    assert "\nnext vertex: bridge\nroute: home -> bridge -> market\n" in printed
    assert printed.splitlines()[-1].strip() == "reached the goal in 2 steps"


def test_undirected_file_is_walked_both_ways(roads, capsys, refused):
    error = refused(roads, "--from", "park", "--to", "market")
    assert "no way leads from 'park' to the goal 'market'" in error
    assert "next vertex: " in ask(capsys, roads, "--from", "park", "--to", "market", "--undirected")


def test_weights_are_of_the_package_or_a_folder(roads, package, capsys, tmp_path, refused):
    asked = [roads, "--from", "home", "--to", "pond"]
    by_name = ask(capsys, *asked, "--weights", "search_propagator")
    assert "next vertex: park" in by_name
    assert ask(capsys, *asked, "--weights", package / "search_propagator") == by_name
    error = refused(*asked, "--weights", "search_propagater")
    assert "did you mean 'search_propagator'?; a run folder will do as well" in error
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    assert "cannot read the config" in refused(*asked, "--weights", tmp_path / "run")


def test_run_folder_gives_the_weights(roads, capsys, tmp_path):
    run = tiny_search.fit(tmp_path / "trained", test=False)
    capsys.readouterr()
    printed = ask(capsys, roads, "--from", "home", "--to", "market", "--weights", run)
    answer = PathSolver.from_run(run).next_vertex(read_edge_list(roads), "home", "market")
    assert f"next vertex: {answer.vertex}\n" in printed
    for candidate in answer.candidates:
        assert f"{candidate.probability:.4f}" in printed


def test_names_are_printed_as_they_are(capsys, tmp_path):
    path = tmp_path / "odd.txt"
    path.write_text("[red] [/bold]\n[/bold] ü\n", encoding="utf-8-sig")
    printed = ask(capsys, path, "--from", "[red]", "--to", "ü")
    assert "route: [red] -> [/bold] -> ü\n" in printed


BAD_FILES = {
    "one name": (b"a b\nc\n", "line 2: expected the names of two vertices, got 1: 'c'"),
    "weights": (
        b"# head\na b 0.5\n",
        "line 2: expected the names of two vertices, got 3: 'a b 0.5'; leave out",
    ),
    "control": (b"a \x1b[31mb\n", "line 1: names with control characters: 'a \\x1b[31mb'"),
    "empty": (b"", "lists no edges; write one a line"),
    "comments": (b"# a b\n\n", "lists no edges; write one a line"),
    "no text": (b"a \xff\xfe\n", "is no text in UTF-8"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_file_that_is_no_edge_list_is_refused(case, refused, tmp_path):
    content, message = BAD_FILES[case]
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    assert message in refused(path, "--from", "a", "--to", "b")


def test_question_without_an_answer_is_refused(roads, refused, tmp_path):
    assert "cannot read the edge list" in refused(tmp_path / "none.txt", "--from", "a", "--to", "b")
    assert "cannot read the edge list" in refused(tmp_path, "--from", "a", "--to", "b")
    error = refused(roads, "--from", "hme", "--to", "market")
    assert "the start 'hme' is no vertex of the graph; did you mean 'home'" in error
    assert "the goal 'X' is no vertex of the graph; it has 5: 'home', " in refused(
        roads, "--from", "home", "--to", "X"
    )
    assert "already there" in refused(roads, "--from", "home", "--to", "home")
    assert "no edge leads from 'pond'" in refused(roads, "--from", "pond", "--to", "home")
    assert "no way leads from 'park' to the goal 'home'" in refused(roads, "--from", "park", "--to", "home")


def test_help_teaches(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["search", "--help"])
    text = capsys.readouterr().out
    assert stopped.value.code == 0 and text.startswith("usage: graphalgo search")
    for word in ("--from A", "--to B", "--weights NAME", "--undirected", "a comment", "without cycles"):
        assert word in text
    assert main([]) == 0
    usage = capsys.readouterr().out
    assert "graphalgo search roads.txt --from a --to b" in usage and "graphalgo pretrained" in usage


def test_edge_list_is_read_as_networkx_reads_it(roads):
    graph = read_edge_list(roads)
    theirs = nx.read_edgelist(roads, create_using=nx.DiGraph)
    assert nx.utils.graphs_equal(graph, theirs) and list(graph) == list(theirs)
    both = read_edge_list(roads, undirected=True)
    assert not both.is_directed() and set(both.edges) == set(nx.read_edgelist(roads).edges)
    roads.write_text("a a\nb a\nb a\n")
    assert read_edge_list(roads).number_of_edges() == 2
    with pytest.raises(InputError, match="line 4"):
        roads.write_text("a b\n\n\na b {}\n")
        read_edge_list(roads)
