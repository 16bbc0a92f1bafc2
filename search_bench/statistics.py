"""What a set of questions looks like, and whether two sets could come from one generator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

from search_bench.lookahead import NO_WAY, distances, lookahead
from search_bench.questions import Questions
from search_bench.tokens import Question

Statistics = dict[str, np.ndarray]
"""By name, one number a question."""

OF_GRAPH = (
    "vertices",
    "edges",
    "in-degree 0",
    "in-degree 2 or more",
    "in-degree 3 or more",
    "largest in-degree",
    "out-degree 0",
    "out-degree 2 or more",
    "out-degree 3 or more",
    "largest out-degree",
    "vertices that reach the goal",
    "edges from start to goal",
)
"""Statistics that are equal for all questions about one graph: numbers of vertices, mostly."""


def statistics(questions: Questions, one_a_graph: bool = False) -> Statistics:
    """Numbers that describe each question.

    Beside those of :data:`OF_GRAPH`: vertices of the path so far; branches, the children of the current
    vertex; right next vertices; whether the label is nearest to the goal; edges from the current vertex to
    the goal; the lookahead of the first nearest next vertex; how much further the graph goes on below the
    current vertex than that.

    Args:
        questions: at least one.
        one_a_graph: take one question from each row of consecutive questions about one graph (the middle
            one); questions about one graph are not independent. They are told by the statistics of the graph.

    Cost: O(size) a question.
    """
    rows = [_describe(questions[at], int(questions.label[at])) for at in range(len(questions))]
    if one_a_graph:
        rows = _one_a_graph(rows)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def compare(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """Two-sample Kolmogorov-Smirnov tests, one a statistic.

    Returns:
        Rows of ``statistic``, means and standard deviations ``our_mean``, ``their_mean``, ``our_sd``,
        ``their_sd``, the largest difference of the distribution functions ``distance``, and ``p``, the
        chance of one as large from one distribution (too large where many values tie: an easy judge).
    """
    rows = []
    for name in theirs:
        test = stats.ks_2samp(ours[name], theirs[name], method="asymp")
        rows.append(
            {
                "statistic": name,
                "our_mean": float(ours[name].mean()),
                "their_mean": float(theirs[name].mean()),
                "our_sd": float(ours[name].std()),
                "their_sd": float(theirs[name].std()),
                "distance": float(test.statistic),
                "p": float(test.pvalue),
            }
        )
    return rows


def _describe(question: Question, label: int) -> dict[str, int]:
    n = question.size + 1
    edges, current, goal = question.edges, question.current, question.goal
    out_degree, in_degree = (np.bincount(ends, minlength=n) for ends in edges)
    real = out_degree + in_degree > 0
    to_goal = distances(edges, n, goal)
    children = np.unique(edges[1, edges[0] == current])
    right = children[to_goal[children] != NO_WAY]
    nearest = right[to_goal[right] == to_goal[right].min()]
    ahead = lookahead(edges, n, current, int(nearest[0]), goal)
    return {
        "vertices": int(real.sum()),
        "edges": edges.shape[1],
        "in-degree 0": int((real & (in_degree == 0)).sum()),
        "in-degree 2 or more": int((in_degree >= 2).sum()),
        "in-degree 3 or more": int((in_degree >= 3).sum()),
        "largest in-degree": int(in_degree.max()),
        "out-degree 0": int((real & (out_degree == 0)).sum()),
        "out-degree 2 or more": int((out_degree >= 2).sum()),
        "out-degree 3 or more": int((out_degree >= 3).sum()),
        "largest out-degree": int(out_degree.max()),
        "vertices that reach the goal": int((to_goal != NO_WAY).sum()),
        "edges from start to goal": int(to_goal[question.start]),
        "vertices of the path so far": len(question.path),
        "branches": int(out_degree[current]),
        "right next vertices": len(right),
        "label is nearest": int(label in nearest),
        "edges from current to goal": int(to_goal[current]),
        "lookahead": ahead,
        "depth below current - lookahead": int(distances(edges[::-1], n, current).max()) - ahead,
    }


def _one_a_graph(rows: list[dict[str, int]]) -> list[dict[str, int]]:
    graphs: list[list[dict[str, int]]] = []
    for row in rows:
        if graphs and all(row[name] == graphs[-1][0][name] for name in OF_GRAPH):
            graphs[-1].append(row)
        else:
            graphs.append([row])
    return [rows_of_graph[len(rows_of_graph) // 2] for rows_of_graph in graphs]
