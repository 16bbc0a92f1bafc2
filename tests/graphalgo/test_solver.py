"""PathSolver: the model's own answers under any labels, and a clear word where there are none."""

import dataclasses
import random

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

import graphalgo
from clrs_bridge import get_task
from graphalgo import InputError, LoopedBlock, OrJoin, PairBlock, PathSolver, Propagator, StackedBlocks
from graphalgo.mixers.propagator import SMALLEST
from graphalgo.module import PairModule
from search_bench import at_lookahead, balanced, random_graphs, to_pair_batch
from search_bench.names import ToNames
from tests import tiny_search

WAY = [("s", "a"), ("a", "b"), ("b", "g"), ("s", "x"), ("x", "y")]
"""s to g by a and b; by x it goes nowhere."""


@pytest.fixture
def solver():
    """One that is always right."""
    return PathSolver(tiny_search.hand_set_module())


def random_module(loop=None):
    """A module with weights as they are drawn, so that nothing about its answers is right, nor a tie."""
    loop = loop or LoopedBlock(PairBlock(8, [Propagator(8, 2), OrJoin(8, 4)]))
    module = PairModule(loop, to_pair_batch(), "search", test_loops=3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.3, generator=torch.Generator().manual_seed(parameter.numel()))
    return module.eval()


def ask_question(solver, data, name=lambda vertex: vertex, order=None):
    """The solver's answer to a question of search_bench, its vertices called by ``name``."""
    marks = {mark: name(int(data[mark].argmax())) for mark in ("start", "goal", "current")}
    edges = [(name(u), name(v)) for u, v in data.edge_index.T.tolist()]
    graph = nx.DiGraph(edges if order is None else order(edges))
    return solver.next_vertex(graph, **marks)


# Twins -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [balanced, random_graphs])
def test_solver_answers_as_the_module_does(draw):
    module = random_module()
    solver = PathSolver(module)
    for data in draw(20, 12, seed=3).data_list():
        answer = ask_question(solver, data)
        with torch.inference_mode():
            batch = module.to_pairs(data)
            probability = module(batch)["next"].softmax(dim=-1)[0]
        children = data.edge_index[1, data.edge_index[0] == int(data.current.argmax())].tolist()
        assert sorted(candidate.vertex for candidate in answer.candidates) == sorted(children)
        for candidate in answer.candidates:
            assert candidate.probability == pytest.approx(float(probability[candidate.vertex]), rel=1e-4)
        # Up to ties: vertices that are alike but for rounding.
        assert answer.vertex == answer.candidates[0].vertex
        best, (theirs,) = float(probability[children].max()), module.answer(data)
        assert float(probability[answer.vertex]) == pytest.approx(best, rel=1e-4)
        at_choice = float(probability[answer.model_choice])
        assert at_choice == pytest.approx(float(probability[int(theirs["next"])]), rel=1e-4)


def test_choice_that_is_no_child_is_told_and_not_taken(solver):
    with torch.no_grad():
        solver.module.model.readouts["next"].score[2].weight.neg_()
    answer = solver.next_vertex(nx.DiGraph(WAY), "s", "g")
    assert answer.vertex in ("a", "x") and answer.model_choice not in ("a", "x")
    assert sum(candidate.probability for candidate in answer.candidates) < 0.5


@pytest.mark.parametrize("stacked", [False, True])
def test_walk_weights_are_those_of_the_last_iteration(stacked):
    blocks = [PairBlock(8, [Propagator(8, 2)]) for _ in range(2)]
    module = random_module(StackedBlocks(blocks) if stacked else LoopedBlock(blocks[0]))
    (data,) = balanced(12, 1, seed=0).data_list()
    batch = module.to_pairs(data)
    row = int(data.current.argmax())
    with torch.inference_mode():
        states = [module.model.start(batch)]
        states += module.model.loop.states(states[0], batch.mask, module.loops_for(batch))
        inputs = [graphalgo.blocks.rms_norm(state) for state in states[:-1]]
        asked = zip(blocks, inputs, strict=True) if stacked else [(blocks[0], inputs[-1])]
        log_x = torch.cat([block.mixers[0](t, batch.mask)[0, row, :, :2] for block, t in asked], dim=-1)
    answer = ask_question(PathSolver(module), data)
    assert len(answer.candidates) > 0
    for candidate in answer.candidates:
        torch.testing.assert_close(
            torch.tensor(candidate.log_walk_weight), log_x[candidate.vertex], rtol=1e-4, atol=1e-4
        )


def test_model_without_propagator_has_no_walk_weights():
    module = random_module(LoopedBlock(PairBlock(8, [OrJoin(8, 4)])))
    answer = PathSolver(module).next_vertex(nx.DiGraph(WAY), "s", "g")
    assert [candidate.log_walk_weight for candidate in answer.candidates] == [None, None]


def test_compiled_module_is_asked_without_compiling(monkeypatch):
    module = random_module()
    plain = PathSolver(module).next_vertex(nx.DiGraph(WAY), "s", "g")
    calls = []
    module.model.loop.block.compile(dynamic=True, backend=lambda graph, _: calls.append(1) or graph.forward)
    assert PathSolver(module).next_vertex(nx.DiGraph(WAY), "s", "g") == plain
    assert calls == []


def test_hand_set_model_is_right_at_every_lookahead(solver):
    for lookahead in (1, 7, 24):
        for data in at_lookahead(49, lookahead, 3, seed=1).data_list():
            answer = ask_question(solver, data)
            assert answer.vertex == answer.model_choice == int(data.next)
            right, *wrong = answer.candidates
            assert right.log_walk_weight[0] > -60 and right.probability > 0.5
            assert {log_x for other in wrong for log_x in other.log_walk_weight} == {
                torch.tensor(SMALLEST, dtype=torch.float64).log().float().item()
            }


def test_route_is_right_on_random_graphs(solver):
    for data in random_graphs(40, 12, seed=5).data_list():
        graph = nx.DiGraph(data.edge_index.T.tolist())
        start, goal = int(data.start.argmax()), int(data.goal.argmax())
        route = solver.route(graph, start, goal)
        assert route.reached and route.vertices[0] == start and route.vertices[-1] == goal
        assert nx.is_path(graph, list(route.vertices))
        assert route.note.startswith(f"reached the goal in {len(route.vertices) - 1} step")


def test_names_and_order_do_not_matter():
    solver = PathSolver(random_module())
    shuffled = random.Random(0)
    for data in balanced(16, 6, seed=4).data_list():
        names = [f"vertex {at}" if at % 2 else (at, None) for at in range(data.num_nodes)]
        shuffled.shuffle(names)
        plain = ask_question(solver, data)
        named = ask_question(
            solver, data, names.__getitem__, lambda edges: shuffled.sample(edges, len(edges))
        )
        found = {candidate.vertex: candidate for candidate in named.candidates}
        assert found.keys() == {names[candidate.vertex] for candidate in plain.candidates}
        best, *_ = plain.candidates
        assert found[named.vertex].probability == pytest.approx(best.probability, rel=1e-3)
        for ours in plain.candidates:
            theirs = found[names[ours.vertex]]
            assert theirs.probability == pytest.approx(ours.probability, rel=1e-3)
            assert theirs.log_walk_weight == pytest.approx(ours.log_walk_weight, rel=1e-3)


def test_every_kind_of_graph_is_the_same_question(solver):
    plain = solver.next_vertex(nx.DiGraph(WAY), "s", "g")
    several = nx.MultiDiGraph([*WAY, ("s", "a"), ("a", "b")])
    more = nx.DiGraph(WAY)
    more.add_nodes_from(["alone", "lonely"])
    more.add_edges_from([("s", "s"), ("g", "g"), ("alone", "alone")], weight=3.0)
    for graph in (several, more):
        assert solver.next_vertex(graph, "s", "g") == plain
    at = {vertex: place for place, vertex in enumerate("sabgxy")}
    edges = [[at[u], at[v]] for u, v in [*WAY, WAY[0], ("x", "x")]]
    data = Data(edge_index=torch.tensor(edges).T, num_nodes=9)  # three more without edges
    answer = solver.next_vertex(data, 0, 3)
    assert answer.vertex == at["a"] and [c.vertex for c in answer.candidates] == [at["a"], at["x"]]
    assert answer.candidates[0].probability == plain.candidates[0].probability
    assert solver.route(data, 0, 3).vertices == (0, 1, 2, 3)


def test_undirected_graph_has_both_ways(solver):
    answer = solver.next_vertex(nx.Graph([("g", "b"), ("b", "s"), ("s", "x")]), "s", "g")
    assert answer.vertex == "b" and {c.vertex for c in answer.candidates} == {"b", "x"}


def test_cycles_get_an_answer_and_a_route_ends(solver):
    """The weight of walks that go round is larger: the route may, but not for ever."""
    graph = nx.DiGraph([("s", "a"), ("a", "b"), ("b", "s"), ("b", "g"), ("s", "x"), ("x", "x")])
    assert solver.next_vertex(graph, "s", "g").vertex == "a"
    assert solver.next_vertex(graph, "s", "g", current="b").vertex in ("s", "g")
    route = solver.route(graph, "s", "g")
    assert route.vertices[:3] == ("s", "a", "b") and len(route.vertices) == 4
    assert route.reached or route.note == "went in a circle: 's' was passed before"


def test_answer_is_about_the_current_vertex(solver):
    assert solver.next_vertex(nx.DiGraph(WAY), "s", "g", current="a").vertex == "b"
    assert solver.next_vertex(nx.DiGraph([("s", 0), (0, "g")]), "s", "g", current=0).vertex == "g"


# What cannot be answered -----------------------------------------------------------------------------------

NO_ANSWER = {
    "unknown start": (
        dict(start="S", goal="g"),
        "the start 'S' is no vertex of the graph; it has 6: 's', 'a'",
    ),
    "unknown goal": (dict(start="s", goal="goal"), "the goal 'goal' is no vertex"),
    "unknown current": (dict(start="s", goal="g", current=1), "the current vertex 1 is no vertex"),
    "no label": (dict(start="s", goal=["g"]), "the goal must be a vertex, which is hashable"),
    "there already": (dict(start="s", goal="s"), "already there: the current vertex 's' is the goal"),
    "there by now": (dict(start="s", goal="b", current="b"), "already there"),
    "no child": (dict(start="s", goal="g", current="y"), "no edge leads from 'y' to another vertex"),
    "out of reach": (dict(start="s", goal="g", current="x"), "no way leads from 'x' to the goal 'g'"),
    "not on the way": (
        dict(start="x", goal="g", current="a"),
        "no way leads from the start 'x' to the current",
    ),
}


@pytest.mark.parametrize("case", NO_ANSWER)
def test_question_without_an_answer_is_refused(case, solver, types_unchecked):
    asked, message = NO_ANSWER[case]
    with pytest.raises(InputError, match=message):
        solver.next_vertex(nx.DiGraph(WAY), **asked)


def test_checks_can_be_left_out(solver):
    graph = nx.DiGraph(WAY)
    assert solver.next_vertex(graph, "s", "g", current="x", check=False).vertex == "y"
    assert solver.next_vertex(graph, "x", "g", current="a", check=False).vertex == "b"


def test_close_names_are_suggested(solver):
    graph = nx.DiGraph([("Hamburg", "Berlin"), ("Berlin", "Dresden"), (1, 2)])
    with pytest.raises(InputError, match="the goal 'Dresdn' is no vertex .* did you mean 'Dresden'?"):
        solver.route(graph, "Hamburg", "Dresdn")


BAD_GRAPHS = {
    "empty": (nx.DiGraph(), "the graph has no vertices"),
    "no graph": ({"a": ["b"]}, "expected a networkx graph or a PyG Data, got a dict"),
    "size not known": (Data(edge_index=torch.tensor([[0], [1]])), "set num_nodes"),
    "edge to nowhere": (
        Data(edge_index=torch.tensor([[0], [5]]), num_nodes=2),
        r"vertices 0..5, there are 0..1",
    ),
    "negative": (Data(edge_index=torch.tensor([[-1], [1]]), num_nodes=2), r"vertices -1..1, there are 0..1"),
    "no edges": (Data(num_nodes=2), "expected an edge_index"),
    "real numbers": (Data(edge_index=torch.zeros(2, 1), num_nodes=2), "expected an edge_index"),
    "empty data": (Data(edge_index=torch.zeros(2, 0).long(), num_nodes=0), "the graph has no vertices"),
}


@pytest.mark.parametrize("case", BAD_GRAPHS)
def test_graph_that_is_none_is_refused(case, solver, types_unchecked):
    graph, message = BAD_GRAPHS[case]
    for ask in (solver.next_vertex, solver.route):
        with pytest.raises(InputError, match=message):
            ask(graph, 0, 1)


def test_module_of_another_task_is_refused(types_unchecked):
    task = get_task("bfs")
    loop = LoopedBlock(PairBlock(8, [OrJoin(8, 4)]))
    with pytest.raises(InputError, match=r"task 'bfs': it answers pi \(node pointer\) and reads pos, s;"):
        PathSolver(PairModule(loop, task.to_pair_batch(), "bfs"))
    with pytest.raises(InputError, match="reads questions as tokens"):
        PathSolver(PairModule(loop, ToNames(), "search", front=torch.nn.Identity()))
    with pytest.raises(InputError, match="expected a PairModule, got a PairModel"):
        PathSolver(tiny_search.hand_set_module().model)


def test_model_that_has_diverged_says_so(solver):
    with torch.no_grad():
        solver.module.model.encode.bias.fill_(torch.nan)
    with pytest.raises(InputError, match="are NaN: the training has diverged"):
        solver.next_vertex(nx.DiGraph(WAY), "s", "g")


# Routes ----------------------------------------------------------------------------------------------------


class Always(PathSolver):
    """Takes the last child in the alphabet, whatever the question."""

    def _ask(self, children, start, goal, current):
        return dataclasses.replace(
            super()._ask(children, start, goal, current), vertex=max(children[current])
        )


def test_route_says_why_it_ends(solver):
    graph = nx.DiGraph(WAY)
    assert solver.route(graph, "s", "s") == graphalgo.solver.Route(("s",), True, "the start is the goal")
    route = solver.route(graph, "x", "g")
    assert (route.vertices, route.reached) == (("x",), False)
    assert route.note == "no way leads from the start 'x' to the goal 'g'"
    route = solver.route(graph, "s", "g", max_steps=2)
    assert (route.vertices, route.reached) == (("s", "a", "b"), False)
    assert route.note == "stopped after 2 steps, as max_steps says"
    assert solver.route(graph, "s", "g", max_steps=3).reached
    assert solver.route(graph, "s", "g", max_steps=0).vertices == ("s",)
    with pytest.raises(InputError, match="max_steps must not be negative, got -1"):
        solver.route(graph, "s", "g", max_steps=-1)


def test_route_of_a_model_that_errs_says_where():
    errs = Always(tiny_search.hand_set_module())
    graph = nx.DiGraph(WAY)
    route = errs.route(graph, "s", "g")
    assert (route.vertices, route.reached) == (("s", "x"), False)
    assert route.note == "took a wrong turn after 's': no way leads from 'x' to the goal 'g'"
    route = errs.route(graph, "s", "g", check=False)
    assert route.vertices == ("s", "x", "y") and route.note == "came to a dead end: no edge leads on from 'y'"
    graph.add_edge("y", "s")
    route = errs.route(graph, "s", "g")
    assert route.vertices == ("s", "x", "y", "s") and route.note == "went in a circle: 's' was passed before"
    assert not route.reached
