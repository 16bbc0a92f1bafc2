"""Compiled loops: random numbers, random graphs, distances, lookahead, and questions as rows of tokens.

All in one file because numba's cache on disk notices a change of the file a function stands in, not of the
files of the functions it calls. Vertices are 0..n - 1 here; a row of tokens holds names 1..size.

Public faces: :mod:`search_bench.lookahead`, :mod:`search_bench.generate`, :mod:`search_bench.tokens`.
"""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

BALANCED, AT_LOOKAHEAD, RANDOM = 0, 1, 2
"""Kinds of questions."""

NO_LOOKAHEAD = -1
"""Given where no lookahead is wanted in particular."""

FEW_PATHS = 64
"""A graph with more paths from start to goal than this is not asked about."""

SPARE = 6
"""A balanced graph gets up to SPARE - 1 vertices more than its branches need."""

DEGREES = 4
"""A vertex added to a balanced graph gets fewer than DEGREES children, and as few parents."""

NAMINGS = 64
"""Namings tried before a graph is given up because none puts its question into the wanted split."""

TEST_BITS = 4
"""Of 2^TEST_BITS keys one belongs to test questions."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


class Roads(NamedTuple):
    """A directed graph that grows; edge e runs from ``source[e]`` to ``target[e]``.

    The edges out of u are ``first_out[u]``, then ``after_out`` of each, up to -1; those into v alike.
    """

    size: np.ndarray
    """Number of vertices, number of edges."""
    source: np.ndarray
    target: np.ndarray
    first_out: np.ndarray
    after_out: np.ndarray
    first_in: np.ndarray
    after_in: np.ndarray
    out_degree: np.ndarray
    in_degree: np.ndarray


class Space(NamedTuple):
    """Room for what the loops keep about the vertices of one graph."""

    distance: np.ndarray
    queue: np.ndarray
    layer: np.ndarray
    wrong_queue: np.ndarray
    path: np.ndarray
    edge: np.ndarray
    weight: np.ndarray
    marked: np.ndarray
    names: np.ndarray
    """A permutation of 1..size; vertex v is called ``names[v]``."""


class Rows(NamedTuple):
    """Questions, one a row; see :class:`search_bench.questions.Questions`."""

    tokens: np.ndarray
    label: np.ndarray
    next_ok: np.ndarray
    lookahead: np.ndarray


def compiled(function):
    """Compiles with numba; on disk where a cache can be written, else again in each process."""
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # numba found no folder for its cache, as in a read-only installation
        return njit(function)


# no_type_check: run-time checkers of annotations would wrap the functions before numba sees them.


@compiled
@no_type_check
def mix(z):
    """SplitMix64's finaliser: a bijection of 64-bit words that scatters every bit."""
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@compiled
@no_type_check
def below(state, bound):
    """A whole number in 0..bound - 1 from the SplitMix64 stream ``state[0]``; the bias is bound / 2^32."""
    state[0] += _GOLDEN
    return np.int64(((mix(state[0]) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@compiled
@no_type_check
def new_roads(max_vertices, max_edges):
    """An empty graph with room for so many vertices and edges."""
    return Roads(
        np.zeros(2, dtype=np.int64),
        np.empty(max_edges, dtype=np.int64),
        np.empty(max_edges, dtype=np.int64),
        np.empty(max_vertices, dtype=np.int64),
        np.empty(max_edges, dtype=np.int64),
        np.empty(max_vertices, dtype=np.int64),
        np.empty(max_edges, dtype=np.int64),
        np.empty(max_vertices, dtype=np.int64),
        np.empty(max_vertices, dtype=np.int64),
    )


@compiled
@no_type_check
def new_space(max_vertices, size):
    """Room for so many vertices, and the names 1..size."""
    return Space(
        np.empty(max_vertices, dtype=np.int64),
        np.empty(max_vertices, dtype=np.int64),
        np.empty(max_vertices, dtype=np.int64),
        np.empty(max_vertices, dtype=np.int64),
        np.empty(max_vertices, dtype=np.int64),
        np.empty(max_vertices, dtype=np.int64),
        np.empty(max_vertices, dtype=np.int64),
        np.empty(max_vertices, dtype=np.bool_),
        np.arange(1, size + 1),
    )


@compiled
@no_type_check
def add_vertex(roads):
    """Adds an isolated vertex and returns it."""
    v = roads.size[0]
    roads.size[0] = v + 1
    roads.first_out[v] = -1
    roads.first_in[v] = -1
    roads.out_degree[v] = 0
    roads.in_degree[v] = 0
    return v


@compiled
@no_type_check
def add_edge(roads, u, v):
    """Adds the edge u -> v."""
    e = roads.size[1]
    roads.size[1] = e + 1
    roads.source[e] = u
    roads.target[e] = v
    roads.after_out[e] = roads.first_out[u]
    roads.first_out[u] = e
    roads.after_in[e] = roads.first_in[v]
    roads.first_in[v] = e
    roads.out_degree[u] += 1
    roads.in_degree[v] += 1


@compiled
@no_type_check
def roads_of(source, target, n):
    """The graph of n vertices with these edges."""
    roads = new_roads(n, len(source))
    for _ in range(n):
        add_vertex(roads)
    for e in range(len(source)):
        add_edge(roads, source[e], target[e])
    return roads


# Distances and lookahead


@compiled
@no_type_check
def distances_to(roads, goal, distance, queue):
    """Fills ``distance[v]`` with the edges of a shortest path from v to the goal; -1 where there is none."""
    distance[: roads.size[0]] = -1
    distance[goal] = 0
    queue[0] = goal
    done, found = 0, 1
    while done < found:
        v = queue[done]
        done += 1
        e = roads.first_in[v]
        while e >= 0:
            u = roads.source[e]
            if distance[u] < 0:
                distance[u] = distance[v] + 1
                queue[found] = u
                found += 1
            e = roads.after_in[e]


@compiled
@no_type_check
def lookahead_of(roads, current, right, goal, layer, right_queue, wrong_queue):
    """Lookahead of the step current -> right; see :func:`search_bench.lookahead.lookahead`.

    Within a layer the right branch is expanded first, so it gets whatever it reaches there.
    """
    layer[: roads.size[0]] = -1
    layer[right] = 0
    right_queue[0] = right
    right_done, right_found, wrong_done, wrong_found = 0, 1, 0, 0
    e = roads.first_out[current]
    while e >= 0:
        v = roads.target[e]
        if v != right:
            layer[v] = 0
            wrong_queue[wrong_found] = v
            wrong_found += 1
        e = roads.after_out[e]
    depth = 0
    while wrong_done < wrong_found:
        if layer[goal] == depth:
            return depth + 1
        depth += 1
        right_done, right_found = _next_layer(roads, layer, depth, right_queue, right_done, right_found)
        wrong_done, wrong_found = _next_layer(roads, layer, depth, wrong_queue, wrong_done, wrong_found)
    return depth


@compiled
@no_type_check
def _next_layer(roads, layer, depth, queue, done, found):
    """Puts the unexplored children of ``queue[done:found]`` behind them; returns where the layer lies."""
    end = found
    for at in range(done, found):
        e = roads.first_out[queue[at]]
        while e >= 0:
            v = roads.target[e]
            if layer[v] < 0:
                layer[v] = depth
                queue[end] = v
                end += 1
            e = roads.after_out[e]
    return found, end


@compiled
@no_type_check
def next_path(roads, distance, shortest, goal, path, edge, length):
    """The next path to the goal in depth-first order.

    ``length`` is that of the path before this one, 0 for the first path. ``path[0]`` is the start, and
    ``edge[d]`` the edge last taken from ``path[d]``. The path goes through vertices that reach the goal; with
    ``shortest``, each step one nearer to it.

    Returns:
        Vertices of the path, 0 if there is none left; and how many of its first vertices it shares with the
        path before.
    """
    if length == 0:
        d, shared, e = 0, 0, roads.first_out[path[0]]
    else:
        d, shared = length - 2, length - 1
        e = roads.after_out[edge[d]]
    while True:
        while e >= 0:
            v = roads.target[e]
            if distance[v] == distance[path[d]] - 1 or (distance[v] >= 0 and not shortest):
                break
            e = roads.after_out[e]
        if e >= 0:
            edge[d] = e
            d += 1
            path[d] = roads.target[e]
            if path[d] == goal:
                return d + 1, shared
            e = roads.first_out[path[d]]
        else:
            if d == 0:
                return 0, 0
            d -= 1
            shared = min(shared, d + 1)
            e = roads.after_out[edge[d]]


@compiled
@no_type_check
def has_few_paths(roads, distance, shortest, goal, path, edge):
    """Whether next_path gives at least one path and at most FEW_PATHS."""
    length, _ = next_path(roads, distance, shortest, goal, path, edge, 0)
    count = 0
    while length > 0 and count <= FEW_PATHS:
        count += 1
        length, _ = next_path(roads, distance, shortest, goal, path, edge, length)
    return 0 < count <= FEW_PATHS


# Graphs


@compiled
@no_type_check
def balanced_graph(roads, size, lookahead, state, space):
    """Draws a graph whose first question has about this lookahead; see :mod:`search_bench.generate`.

    Returns:
        Start and goal; start -1 where the graph got more than ``size`` edges.
    """
    roads.size[:] = 0
    longest = max(1, lookahead)
    branches = 1 if lookahead == 0 else 2 + below(state, (size - 1) // lookahead - 1)
    needed = 1 + longest + (branches - 1) * lookahead
    n = max(needed, min(lookahead * branches + 1 + below(state, SPARE), size))
    spare = n - needed

    start = add_vertex(roads)
    goal = _add_path(roads, start, longest)
    for _ in range(branches - 1):
        longer = 1 if spare > 0 and below(state, 2) == 1 else 0
        spare -= longer
        _add_path(roads, start, lookahead + longer)
    first = start
    for _ in range(below(state, spare + 1)):
        before = add_vertex(roads)
        add_edge(roads, before, first)
        first = before
    for _ in range(n - roads.size[0]):
        _add_mixed_vertex(roads, state, space)
        if roads.size[1] > size:
            return -1, goal
    return start, goal


@compiled
@no_type_check
def _add_path(roads, u, length):
    """Adds a path of so many edges out of u and returns its last vertex."""
    for _ in range(length):
        v = add_vertex(roads)
        add_edge(roads, u, v)
        u = v
    return u


@compiled
@no_type_check
def _add_mixed_vertex(roads, state, space):
    """Adds a vertex with random children and parents, well-connected ones more likely, and no cycle."""
    weight = space.weight
    others = roads.size[0]
    num_children = below(state, DEGREES)
    num_parents = below(state, DEGREES) if num_children > 0 else 1 + below(state, DEGREES - 1)
    new = add_vertex(roads)
    for v in range(others):
        weight[v] = 1 + 2 * roads.in_degree[v]
    for _ in range(num_children):
        v = _weighted(state, weight, others)
        if v >= 0:
            add_edge(roads, new, v)
    _mark_descendants(roads, new, space.marked, space.queue)
    for u in range(others):
        weight[u] = 0 if space.marked[u] else 1 + 2 * roads.out_degree[u]
    for _ in range(num_parents):
        u = _weighted(state, weight, others)
        if u >= 0:
            add_edge(roads, u, new)


@compiled
@no_type_check
def _weighted(state, weight, n):
    """A vertex with chance proportional to its weight, which is then set to 0; -1 if all weights are 0."""
    total = 0
    for v in range(n):
        total += weight[v]
    if total == 0:
        return -1
    rest = below(state, total)
    v = 0
    while rest >= weight[v]:
        rest -= weight[v]
        v += 1
    weight[v] = 0
    return v


@compiled
@no_type_check
def _mark_descendants(roads, ancestor, marked, queue):
    """Sets ``marked`` at the vertices that can be reached from one, itself included."""
    marked[: roads.size[0]] = False
    marked[ancestor] = True
    queue[0] = ancestor
    done, found = 0, 1
    while done < found:
        e = roads.first_out[queue[done]]
        done += 1
        while e >= 0:
            v = roads.target[e]
            if not marked[v]:
                marked[v] = True
                queue[found] = v
                found += 1
            e = roads.after_out[e]


@compiled
@no_type_check
def random_graph(roads, size, state):
    """Draws a graph of random earlier parents, and start and goal; see :mod:`search_bench.generate`.

    Returns:
        Start and goal; start -1 where the graph got more than ``size`` edges.
    """
    roads.size[:] = 0
    n = 3 + below(state, size - 3)
    add_vertex(roads)
    for v in range(1, n):
        add_vertex(roads)
        wanted = 1 if below(state, 2) == 0 else 1 + below(state, 3)
        while roads.in_degree[v] < min(wanted, v):
            u = below(state, v)
            e = roads.first_in[v]
            while e >= 0 and roads.source[e] != u:
                e = roads.after_in[e]
            if e < 0:
                add_edge(roads, u, v)
        if roads.size[1] > size:
            return -1, -1
    start = below(state, n)
    goal = below(state, n - 1)
    return start, goal + 1 if goal >= start else goal


# Questions


@compiled
@no_type_check
def question_key(source, target, num_edges, start, goal, path, length, names):
    """A 64-bit name of a question: its set of edges, start, goal and path, whatever the order of edges."""
    key = np.uint64(0)
    for e in range(num_edges):
        pair = (np.uint64(names[source[e]]) << np.uint64(32)) | np.uint64(names[target[e]])
        key += mix(pair * _GOLDEN)
    key = mix(key + np.uint64(names[start]))
    key = mix((key ^ np.uint64(names[goal])) + _GOLDEN)
    for at in range(length):
        key = mix((key ^ np.uint64(names[path[at]])) + _GOLDEN)
    return key


@compiled
@no_type_check
def _name(roads, state, is_test, start, goal, path, length, names):
    """Names the vertices at random so that the question falls into the wanted split; False if none did.

    ``names`` holds a permutation of 1..size; its first entries, one a vertex, are drawn anew.
    """
    for _ in range(NAMINGS):
        for v in range(roads.size[0]):
            other = v + below(state, len(names) - v)
            names[v], names[other] = names[other], names[v]
        key = question_key(roads.source, roads.target, roads.size[1], start, goal, path, length, names)
        if (key >> np.uint64(64 - TEST_BITS) == 0) == is_test:
            return True
    return False


@compiled
@no_type_check
def _write(roads, state, start, goal, path, length, names, row):
    """The question as tokens, edges in random order, padding on the left."""
    size = len(names)
    num_edges = roads.size[1]
    at = len(row) - (3 * num_edges + 4 + length)
    row[:at] = size + 3
    order = np.arange(num_edges)
    for e in range(num_edges):
        other = e + below(state, num_edges - e)
        order[e], order[other] = order[other], order[e]
        row[at] = size + 2
        row[at + 1] = names[roads.source[order[e]]]
        row[at + 2] = names[roads.target[order[e]]]
        at += 3
    row[at] = size + 4
    row[at + 1] = names[start]
    row[at + 2] = names[goal]
    row[at + 3] = size + 1
    for step in range(length):
        row[at + 4 + step] = names[path[step]]


@compiled
@no_type_check
def count_right_children(roads, distance, current):
    """Number of children that reach the goal."""
    count = 0
    e = roads.first_out[current]
    while e >= 0:
        count += distance[roads.target[e]] >= 0
        e = roads.after_out[e]
    return count


@compiled
@no_type_check
def _write_answers(roads, state, distance, current, names, next_ok):
    """Marks the names of the children that reach the goal and returns one of them, drawn uniformly."""
    rank = below(state, count_right_children(roads, distance, current))
    label = -1
    e = roads.first_out[current]
    while e >= 0:
        v = roads.target[e]
        if distance[v] >= 0:
            next_ok[names[v]] = True
            if rank == 0:
                label = names[v]
            rank -= 1
        e = roads.after_out[e]
    return label


@compiled
@no_type_check
def _draw_lookahead(size, state):
    return below(state, (size - 1) // 2 + 1)


@compiled
@no_type_check
def _ask(kind, roads, start, goal, wanted, is_test, state, space, rows, filled):
    """Asks every question about a graph that is to be kept, as long as there are rows for them.

    Returns:
        Number of rows filled, and the lookahead wanted next.
    """
    path, distance = space.path, space.distance
    shortest = kind != AT_LOOKAHEAD
    vertices, shared = next_path(roads, distance, shortest, goal, path, space.edge, 0)
    while vertices > 0:
        for length in range(1, vertices):
            current, right = path[length - 1], path[length]
            if 3 * roads.size[1] + 4 + length > rows.tokens.shape[1]:
                continue
            if kind == AT_LOOKAHEAD and (
                length <= shared  # asked already, on the path before
                or roads.out_degree[current] < 2
                or count_right_children(roads, distance, current) != 1
            ):
                continue
            found = lookahead_of(roads, current, right, goal, space.layer, space.queue, space.wrong_queue)
            if kind != RANDOM and found != wanted:
                continue
            if not _name(roads, state, is_test, start, goal, path, length, space.names):
                continue
            _write(roads, state, start, goal, path, length, space.names, rows.tokens[filled])
            rows.label[filled] = _write_answers(
                roads, state, distance, current, space.names, rows.next_ok[filled]
            )
            rows.lookahead[filled] = found
            filled += 1
            if filled == len(rows.tokens):
                return filled, wanted
            if kind == BALANCED:
                wanted = _draw_lookahead(len(space.names), state)
        vertices, shared = next_path(roads, distance, shortest, goal, path, space.edge, vertices)
    return filled, wanted


@compiled
@no_type_check
def fill(kind, size, wanted, is_test, seed, max_graphs, rows):
    """Fills rows with questions from one stream of random numbers.

    Args:
        kind: BALANCED, AT_LOOKAHEAD or RANDOM.
        size: ids go up to it.
        wanted: the lookahead, for AT_LOOKAHEAD.
        is_test: which split the questions belong to.
        seed: of the stream, uint64.
        max_graphs: graphs to draw at most.
        rows: written; ``next_ok`` must come in False.

    Returns:
        Number of rows filled; fewer than there are where max_graphs was reached.
    """
    state = np.array([seed], dtype=np.uint64)
    roads = new_roads(size + SPARE, 2 * size + 2 * DEGREES)
    space = new_space(size + SPARE, size)
    filled = 0
    if kind == BALANCED:
        wanted = _draw_lookahead(size, state)
    for _ in range(max_graphs):
        if kind == RANDOM:
            start, goal = random_graph(roads, size, state)
        else:
            start, goal = balanced_graph(roads, size, wanted, state, space)
        if start < 0:
            continue
        distances_to(roads, goal, space.distance, space.queue)
        if space.distance[start] < 0:
            continue
        if kind == AT_LOOKAHEAD and space.distance[start] + 1 <= min(wanted, 2):
            continue
        space.path[0] = start
        if has_few_paths(roads, space.distance, kind != AT_LOOKAHEAD, goal, space.path, space.edge):
            filled, wanted = _ask(kind, roads, start, goal, wanted, is_test, state, space, rows, filled)
        if filled == len(rows.tokens):
            break
    return filled
