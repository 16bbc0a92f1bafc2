"""Random adjacency matrices, drawn from the same random stream as dm-clrs 2.0.3 draws them.

``np.random.RandomState`` streams are frozen by numpy, so equal seeds give equal graphs on every numpy.
Every function draws from the generator it is given and from nothing else.

Source: dm-clrs 2.0.3, ``clrs/_src/samplers.py``, ``_random_er_graph`` and ``_random_community_graph``.
"""

from __future__ import annotations

import itertools

import numpy as np
from jaxtyping import Float, Int

NUM_COMMUNITIES = 4
"""Communities of :func:`communities`, as many as its smallest graph has vertices."""

_TOGGLE_PROB = 0.01
_UNDERFLOW_GUARD = 1e-3


def undirected(rng: np.random.RandomState, num_nodes: int, edge_prob: float) -> Int[np.ndarray, "n n"]:
    """Symmetric 0/1 matrix; an edge where both of (i, j) and (j, i) are drawn.

    The density is ``edge_prob**2`` off the diagonal and ``edge_prob`` on it (self-loops).
    """
    drawn = rng.binomial(1, edge_prob, size=(num_nodes, num_nodes))
    return drawn * drawn.T


def directed(rng: np.random.RandomState, num_nodes: int, edge_prob: float) -> Int[np.ndarray, "n n"]:
    """0/1 matrix of density ``edge_prob``, self-loops included."""
    return rng.binomial(1, edge_prob, size=(num_nodes, num_nodes))


def acyclic(rng: np.random.RandomState, num_nodes: int, edge_prob: float) -> Int[np.ndarray, "n n"]:
    """0/1 matrix of a DAG: an upper triangle of density ``edge_prob``, its vertices permuted."""
    drawn = np.triu(rng.binomial(1, edge_prob, size=(num_nodes, num_nodes)), k=1)
    order = rng.permutation(num_nodes)
    return drawn[np.ix_(order, order)]


def weighted_undirected(
    rng: np.random.RandomState, num_nodes: int, edge_prob: float
) -> Float[np.ndarray, "n n"]:
    """Symmetric weights sqrt(u_ij u_ji + 0.001), u uniform on [0, 1), on the edges of :func:`undirected`."""
    edge = undirected(rng, num_nodes, edge_prob)
    drawn = rng.uniform(size=(num_nodes, num_nodes))
    return edge * np.sqrt(drawn * drawn.T + _UNDERFLOW_GUARD)


def weighted_acyclic(
    rng: np.random.RandomState, num_nodes: int, edge_prob: float
) -> Float[np.ndarray, "n n"]:
    """Weights uniform on [0, 1) on the edges of :func:`acyclic`."""
    return acyclic(rng, num_nodes, edge_prob) * rng.uniform(size=(num_nodes, num_nodes))


def communities(rng: np.random.RandomState, num_nodes: int, edge_prob: float) -> Float[np.ndarray, "n n"]:
    """0/1 matrix of four communities of n // 4 vertices (the last takes the rest), its vertices permuted.

    Each community is :func:`directed`. Then 1% of the pairs inside a community or from an earlier to a later
    one are toggled (an edge goes, a non-edge comes), so that no cycle runs through two communities.
    """
    matrix = np.zeros((num_nodes, num_nodes))
    size = num_nodes // NUM_COMMUNITIES
    bounds = [*range(0, NUM_COMMUNITIES * size, size), num_nodes]
    for lo, hi in itertools.pairwise(bounds):
        matrix[lo:hi, lo:hi] = directed(rng, hi - lo, edge_prob)
    community = np.minimum(np.arange(num_nodes) // size, NUM_COMMUNITIES - 1)
    toggled = directed(rng, num_nodes, _TOGGLE_PROB) * (community[:, None] <= community[None, :])
    matrix = np.where(toggled, 1.0 - matrix, matrix)
    order = rng.permutation(num_nodes)
    return matrix[np.ix_(order, order)]
