"""Slow twins of search_bench: definitions once more, as plain loops over Python lists and integers.

Nothing here is clever, shares code with the package, or is used outside the tests. Graphs are lists of edges
(u, v); vertices are any numbers.
"""

WORD = 2**64


def children(edges, u):
    return [v for tail, v in edges if tail == u]


def reaches(edges, u, goal):
    """Whether some path leads from u to the goal, by trying them all."""
    return u == goal or any(reaches(edges, v, goal) for v in children(edges, u))


def distance(edges, u, goal):
    """Edges of a shortest path, by widening a circle around u; -1 without one."""
    circle, steps = {u}, 0
    while goal not in circle:
        wider = circle | {v for tail, v in edges if tail in circle}
        if wider == circle:
            return -1
        circle, steps = wider, steps + 1
    return steps


def valid_next(edges, current, goal):
    return {v for v in children(edges, current) if distance(edges, v, goal) >= 0}


def lookahead(edges, current, right, goal):
    """By labels: each explored vertex carries the child that it came from.

    First come, first labelled; a vertex of the next layer that the right branch also reaches is relabelled.
    """
    label = {child: child for child in children(edges, current)}
    frontier = list(label)
    layers = 0
    while not all(label[u] == right for u in frontier):
        if goal in frontier:
            return layers + 1
        following = []
        for u in frontier:
            for v in children(edges, u):
                if v not in label:
                    label[v] = label[u]
                    following.append(v)
                elif v in following and label[u] == right:
                    label[v] = right
        frontier = following
        layers += 1
    return layers


def is_acyclic(edges):
    """Whether vertices without a parent can be taken away until nothing is left."""
    edges = set(edges)
    while edges:
        heads = {v for _, v in edges}
        kept = {(u, v) for u, v in edges if u in heads}
        if kept == edges:
            return False
        edges = kept
    return True


def paths(edges, start, goal):
    """All paths of a graph without cycles."""
    if start == goal:
        return [[goal]]
    return [[start, *rest] for v in children(edges, start) for rest in paths(edges, v, goal)]


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def question_key(edges, start, goal, path):
    golden = 0x9E3779B97F4A7C15
    key = 0
    for u, v in edges:
        key = (key + mix((2**32 * u + v) * golden % WORD)) % WORD
    key = mix((key + start) % WORD)
    for vertex in (goal, *path):
        key = mix(((key ^ vertex) + golden) % WORD)
    return key


def read_tokens(tokens):
    """Edges, start, goal, path of a row, token by token."""
    tokens = [int(token) for token in tokens]
    size = (len(tokens) - 5) // 3
    at, edges = 0, []
    while tokens[at] == size + 3:
        at += 1
    while tokens[at] == size + 2:
        edges.append((tokens[at + 1], tokens[at + 2]))
        at += 3
    assert tokens[at] == size + 4 and tokens[at + 3] == size + 1
    return edges, tokens[at + 1], tokens[at + 2], tokens[at + 4 :]


def features(edges, ids, start, goal, current):
    """Nine features of each pair of ids."""
    marks = (start, goal, current)
    return [
        [
            [u == v, (u, v) in edges, (v, u) in edges, *(u == m for m in marks), *(v == m for m in marks)]
            for v in ids
        ]
        for u in ids
    ]
