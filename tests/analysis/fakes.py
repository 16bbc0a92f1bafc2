"""Runs nobody trained: answers made from the truth, in the tables that a test run leaves."""

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data

from analysis.answers import Answers, true_answers
from graphalgo.predictions import PredictionsWriter
from graphalgo.store import save_graphs


def graph(num_nodes, edges, weights=None, source=None, undirected=False, **targets):
    """A drawn graph: edges as pairs, in row-major order afterwards; an undirected edge is named once."""
    weight = dict(zip(edges, weights if weights is not None else [1.0] * len(edges), strict=True))
    if undirected:
        weight |= {(j, i): w for (i, j), w in weight.items()}
    pairs = sorted(weight)
    data = Data(num_nodes=num_nodes, edge_index=torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T)
    if weights is not None:
        data.edge_weight = torch.tensor([weight[pair] for pair in pairs], dtype=torch.float64)
    if source is not None:
        data.s = torch.zeros(num_nodes, dtype=torch.float64)
        data.s[source] = 1.0
    for name, target in targets.items():
        data[name] = torch.as_tensor(target).reshape(-1)
    return data


def perfect(graphs, outputs, loops=1):
    """The predictions table of a model that is right from the first loop on."""
    parts = []
    for g, data in enumerate(graphs):
        for output in outputs:
            target = true_answers(data, output)
            n = data.num_nodes
            at = np.arange(len(target))
            i, j = (at // n, at % n) if output.location == "edge" else (at, np.full(len(at), -1))
            if output.rank == 0:
                i = np.array([-1])
            part = pd.DataFrame({"graph": g, "output": output.name, "i": i, "j": j, "target": target})
            part = part[part["target"] >= 0].assign(confidence=0.9)
            parts += [part.assign(loop=loop, prediction=part["target"]) for loop in range(1, loops + 1)]
    return pd.concat(parts, ignore_index=True)


def answers(task, graphs, loops=1, wrong=None, seed=0, name="fresh-8"):
    """Answers of which a share ``wrong`` is drawn anew (from the right range) at every loop."""
    outputs = task.outputs
    rows = perfect(graphs, outputs, loops)
    if wrong is not None:
        rng = np.random.default_rng(seed)
        is_mask = rows["output"].isin([output.name for output in outputs if output.type == "mask"])
        limit = np.where(is_mask, 2, np.array([data.num_nodes for data in graphs])[rows["graph"]])
        drawn = rng.integers(limit)
        rows["prediction"] = np.where(rng.random(len(rows)) < wrong, drawn, rows["target"])
    return Answers(task.name, name, outputs, graphs, rows)


def save(run_dir, *sets):
    """Writes a run folder with these answers, as ``graphalgo test`` would."""
    with PredictionsWriter(run_dir / "test" / "predictions.parquet", sets[0].task, sets[0].outputs) as writer:
        for part in sets:
            save_graphs(run_dir / "test" / "graphs" / f"{part.set}.safetensors", part.graphs, {})
            for (g, name, loop), rows in part.rows.groupby(["graph", "output", "loop"]):
                output = next(output for output in part.outputs if output.name == name)
                n = part.graphs[g].num_nodes
                shape = (1, n, n) if output.location == "edge" else (1, n)
                filled = {}
                for column in ("prediction", "target"):
                    if output.rank == 0:
                        filled[column] = torch.tensor(rows[column].tolist())
                        continue
                    filled[column] = torch.full(shape, -1)
                    at = [rows["i"].tolist(), rows["j"].tolist()][: len(shape) - 1]
                    filled[column][(0, *at)] = torch.tensor(rows[column].tolist())
                writer.write(
                    part.set, g, loop, output, confidence=torch.ones(filled["target"].shape), **filled
                )
    return run_dir
