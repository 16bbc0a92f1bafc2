"""Slow twins: every formula of the package once more, as plain loops over float64 numpy arrays.

Nothing here is clever, shares code with the package, or is used outside the tests. A twin is written from the
equation; where package and twin differ, one of them has the equation wrong.

Axes: b graph, i row or source, j column or target, k middle, c channel, h head, t term, q class.
``mask[b]`` is True at real vertices, which need not be the first ones. Padded results are 0.
"""

import math

import numpy as np


def _real(mask_of_graph):
    return [v for v in range(len(mask_of_graph)) if mask_of_graph[v]]


def sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x)) if x > -700 else 0.0


def log_sigmoid(x):
    return -math.log1p(math.exp(-x)) if x > -30 else x


# Mixers: the sum over the middle vertex


def summed(a, b, mask):
    """out[b,i,j,c] = n_b^(-1/2) sum_k a[b,i,k,c] b[b,k,j,c]."""
    out = np.zeros(a.shape)
    for g in range(a.shape[0]):
        real = _real(mask[g])
        for i in real:
            for j in real:
                for c in range(a.shape[3]):
                    total = 0.0
                    for k in real:
                        total += a[g, i, k, c] * b[g, k, j, c]
                    out[g, i, j, c] = total / math.sqrt(len(real))
    return out


def or_join(a, b, mask, flip=((False, False),)):
    """out[b,i,j,c] = 1 - exp(-sum_t sum_k left_t right_t).

    Term t reads channel t*C + c; left is a[k,i], not a[i,k], where flip[t][0]; right is b[j,k], not
    b[k,j], where flip[t][1].
    """
    channels = a.shape[3] // len(flip)
    out = np.zeros((*a.shape[:3], channels))
    for g in range(a.shape[0]):
        real = _real(mask[g])
        for i in real:
            for j in real:
                for c in range(channels):
                    total = 0.0
                    for t, (flip_a, flip_b) in enumerate(flip):
                        at = t * channels + c
                        for k in real:
                            left = a[g, k, i, at] if flip_a else a[g, i, k, at]
                            right = b[g, j, k, at] if flip_b else b[g, k, j, at]
                            total += left * right
                    out[g, i, j, c] = 1.0 - math.exp(-total)
    return out


def power_mean(log_x, log_y, beta, mask):
    """out[b,i,j,c] = (mean_k (x[b,i,k,c] y[b,k,j,c])^beta_c)^(1/beta_c); in long double for its range."""
    out = np.zeros(log_x.shape)
    for g in range(log_x.shape[0]):
        real = _real(mask[g])
        for i in real:
            for j in real:
                for c in range(log_x.shape[3]):
                    total = np.longdouble(0)
                    for k in real:
                        x = np.exp(np.longdouble(log_x[g, i, k, c]))
                        y = np.exp(np.longdouble(log_y[g, k, j, c]))
                        total += (x * y) ** np.longdouble(beta[c])
                    out[g, i, j, c] = float((total / len(real)) ** (1 / np.longdouble(beta[c])))
    return out


def propagator(gate, source, mask, ceiling=0.99, smallest=1e-290):
    """[log X, 1 - exp(-X)] with X = S + S G + S G^2 + ..., term by term in long double until none counts.

    G[u,v] = g[u,v] ceiling / max(ceiling, sum_k g[u,k]); X below the smallest weight is read as that.
    """
    channels = gate.shape[3]
    out = np.zeros((*gate.shape[:3], 2 * channels))
    for g in range(gate.shape[0]):
        real = _real(mask[g])
        for c in range(channels):
            capped = np.zeros((len(real), len(real)), dtype=np.longdouble)
            for i, u in enumerate(real):
                total = sum(gate[g, u, v, c] for v in real)
                for j, v in enumerate(real):
                    capped[i, j] = gate[g, u, v, c] * ceiling / max(ceiling, total)
            term = np.array([[source[g, u, v, c] for v in real] for u in real], dtype=np.longdouble)
            walks = np.zeros_like(term)
            while (term > 1e-19 * walks).any() and (term > 0).any():
                walks = walks + term
                term = term @ capped
            for i, u in enumerate(real):
                for j, v in enumerate(real):
                    out[g, u, v, c] = np.log(max(walks[i, j], np.longdouble(smallest)))
                    out[g, u, v, channels + c] = -np.expm1(-walks[i, j])
    return out


def triangle_attention(q, k, v1, v2, mask):
    """out[b,i,j,h*d+e] = sum_k softmax_k(<q[i,k,h], k[k,j,h]> / sqrt(d)) v1[i,k,h,e] v2[k,j,h,e]."""
    heads, d = q.shape[3:]
    out = np.zeros((*q.shape[:3], heads * d))
    for g in range(q.shape[0]):
        real = _real(mask[g])
        for i in real:
            for j in real:
                for h in range(heads):
                    scores = []
                    for m in real:
                        score = 0.0
                        for e in range(d):
                            score += q[g, i, m, h, e] * k[g, m, j, h, e]
                        scores.append(score / math.sqrt(d))
                    weights = softmax(scores)
                    for e in range(d):
                        total = 0.0
                        for weight, m in zip(weights, real, strict=True):
                            total += weight * v1[g, i, m, h, e] * v2[g, m, j, h, e]
                        out[g, i, j, h * d + e] = total
    return out


def vertex_attention(q, k, v, bias, mask):
    """out[b,i,h*d+e] = sum_j softmax_j(<q[i,h], k[j,h]> / sqrt(d) + bias[i,j,h]) v[j,h,e]."""
    heads, d = q.shape[2:]
    out = np.zeros((*q.shape[:2], heads * d))
    for g in range(q.shape[0]):
        real = _real(mask[g])
        for i in real:
            for h in range(heads):
                scores = []
                for j in real:
                    score = 0.0
                    for e in range(d):
                        score += q[g, i, h, e] * k[g, j, h, e]
                    scores.append(score / math.sqrt(d) + bias[g, i, j, h])
                weights = softmax(scores)
                for e in range(d):
                    for weight, j in zip(weights, real, strict=True):
                        out[g, i, h * d + e] += weight * v[g, j, h, e]
    return out


def softmax(scores):
    top = max(scores)
    powers = [math.exp(score - top) for score in scores]
    return [power / sum(powers) for power in powers]


# What surrounds the mixers


def linear(t, weight, bias=None):
    """out[..., c] = sum_f weight[c,f] t[..., f] + bias[c]."""
    out = np.zeros((*t.shape[:-1], weight.shape[0]))
    for at in np.ndindex(*t.shape[:-1]):
        for c in range(weight.shape[0]):
            total = 0.0 if bias is None else bias[c]
            for f in range(weight.shape[1]):
                total += weight[c, f] * t[(*at, f)]
            out[(*at, c)] = total
    return out


def gate_logits(t, weight, bias, log_n_shift, mask):
    """out[b,i,j,c] = sum_f weight[c,f] t[b,i,j,f] + bias[c] + log_n_shift[c] log n_b."""
    out = linear(t, weight, bias)
    for g in range(t.shape[0]):
        for c in range(weight.shape[0]):
            out[g, :, :, c] += log_n_shift[c] * math.log(len(_real(mask[g])))
    return out


def rms_norm(z, eps):
    """out[..., c] = z[..., c] / sqrt(mean_c z[..., c]^2 + eps)."""
    out = np.zeros(z.shape)
    for at in np.ndindex(*z.shape[:-1]):
        square = 0.0
        for c in range(z.shape[-1]):
            square += z[(*at, c)] ** 2
        for c in range(z.shape[-1]):
            out[(*at, c)] = z[(*at, c)] / math.sqrt(square / z.shape[-1] + eps)
    return out


def only_real_pairs(z, mask):
    """z with the rows and columns of padded vertices set to 0."""
    out = np.zeros(z.shape)
    for g in range(z.shape[0]):
        for i in _real(mask[g]):
            for j in _real(mask[g]):
                out[g, i, j] = z[g, i, j]
    return out


def entrywise(function, z):
    """A function of one number, applied to every entry."""
    out = np.zeros(z.shape)
    for at in np.ndindex(*z.shape):
        out[at] = function(z[at])
    return out


# Losses: one (location, type) each. logits and target are indexed as in a PairBatch; -1 is not scored


def pointer_loss(logits, target, mask):
    """Mean over scored entries of -log softmax over the real vertices, at the target. logits[b,...,q]."""
    losses = []
    for at in np.ndindex(*target.shape):
        if target[at] == -1:
            continue
        real = _real(mask[at[0]])
        chances = softmax([logits[(*at, q)] for q in real])
        losses.append(-math.log(chances[real.index(target[at])]))
    return sum(losses) / len(losses)


def mask_loss(logits, target):
    """Mean over scored entries of the binary cross-entropy."""
    losses = []
    for at in np.ndindex(*target.shape):
        if target[at] == 1:
            losses.append(-log_sigmoid(logits[at]))
        elif target[at] == 0:
            losses.append(-log_sigmoid(-logits[at]))
    return sum(losses) / len(losses)


# Scores: dm-clrs 2.0.3, clrs/_src/evaluation.py


def share_equal(prediction, target):
    """Pointers, mask_one: the share of scored entries that are right."""
    right = scored = 0
    for at in np.ndindex(*target.shape):
        if target[at] != -1:
            scored += 1
            right += prediction[at] == target[at]
    return right / scored


def pooled_f1(prediction, target):
    """Masks: F1 of all scored entries of all graphs together, 0/1 predictions.

    Precision is 1 if nothing was predicted, recall is 1 if nothing was true, F1 is 0 if both are 0.
    """
    hit = false_alarm = miss = 0
    for at in np.ndindex(*target.shape):
        if target[at] != -1:
            hit += prediction[at] == 1 and target[at] == 1
            false_alarm += prediction[at] == 1 and target[at] == 0
            miss += prediction[at] == 0 and target[at] == 1
    precision = hit / (hit + false_alarm) if hit + false_alarm else 1.0
    recall = hit / (hit + miss) if hit + miss else 1.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def exact_graphs(predictions, targets):
    """For each graph, whether every scored entry of every output is right."""
    num_graphs = len(next(iter(targets.values())))
    exact = [True] * num_graphs
    for name, target in targets.items():
        for at in np.ndindex(*target.shape):
            if target[at] != -1 and predictions[name][at] != target[at]:
                exact[at[0]] = False
    return exact


# The door: PyG Data to pair features


def pair_features(graphs, node_attrs, edge_attrs, order_attrs):
    """x[b,i,j,f] of PyG graphs: identity, edge, reversed edge, edge attributes and the same reversed,
    node attributes of i, of j, and [a_i < a_j] of order attributes.
    """
    sizes = [graph.num_nodes for graph in graphs]
    n = max(sizes)
    rows = []
    for graph, size in zip(graphs, sizes, strict=True):
        edges = [tuple(edge) for edge in graph.edge_index.t().tolist()]

        def on_edge(name, i, j, graph=graph, edges=edges):
            return float(graph[name][edges.index((i, j))]) if (i, j) in edges else 0.0

        for i in range(n):
            for j in range(n):
                if i >= size or j >= size:
                    rows.append(None)
                    continue
                row = [float(i == j), float((i, j) in edges), float((j, i) in edges)]
                row += [on_edge(name, i, j) for name in edge_attrs]
                row += [on_edge(name, j, i) for name in edge_attrs]
                row += [float(graph[name][i]) for name in node_attrs]
                row += [float(graph[name][j]) for name in node_attrs]
                row += [float(float(graph[name][i]) < float(graph[name][j])) for name in order_attrs]
                rows.append(row)
    width = 3 + 2 * len(edge_attrs) + 2 * len(node_attrs) + len(order_attrs)
    rows = [[0.0] * width if row is None else row for row in rows]
    return np.array(rows).reshape(len(graphs), n, n, width)


# Read-outs. ``weights`` are (weight, bias) pairs of the two layers of a SiLU MLP


def mlp_of_one_vector(x, weights):
    (weight_1, bias_1), (weight_2, bias_2) = weights
    hidden = linear(x, weight_1, bias_1)
    hidden = entrywise(lambda value: value * sigmoid(value), hidden)
    return linear(hidden, weight_2, bias_2)[0]


def pair_logits(t, weights):
    """Node pointer (choice over j), edge mask: out[b,i,j] = MLP([t[b,i,j], t[b,j,i]])."""
    out = np.zeros(t.shape[:3])
    for g, i, j in np.ndindex(*out.shape):
        out[g, i, j] = mlp_of_one_vector(np.concatenate([t[g, i, j], t[g, j, i]]), weights)
    return out


def edge_pointer_logits(t, first, second):
    """out[b,i,j,q] = <A t[b,i,q], B t[b,q,j]> / sqrt(c) + alpha[b,i,q] + beta[b,q,j].

    ``first`` is (weight, bias) of A and, in its last row, alpha; ``second`` of B and beta.
    """
    a, b = linear(t, *first), linear(t, *second)
    width = t.shape[3]
    out = np.zeros((*t.shape[:3], t.shape[1]))
    for g, i, j, q in np.ndindex(*out.shape):
        total = 0.0
        for c in range(width):
            total += a[g, i, q, c] * b[g, q, j, c]
        out[g, i, j, q] = total / math.sqrt(width) + a[g, i, q, width] + b[g, q, j, width]
    return out


def node_logits(t, mask, weights):
    """Node mask, mask_one: out[b,i] = MLP([t[b,i,i], max_j t[b,i,j], max_j t[b,j,i]]), j real."""
    out = np.zeros(t.shape[:2])
    for g in range(t.shape[0]):
        real = _real(mask[g])
        for i in real:
            row = [max(t[g, i, j, c] for j in real) for c in range(t.shape[3])]
            column = [max(t[g, j, i, c] for j in real) for c in range(t.shape[3])]
            out[g, i] = mlp_of_one_vector(np.concatenate([t[g, i, i], row, column]), weights)
    return out
