"""What README.md shows in Python does run."""

import re
from pathlib import Path

import torch
from torch_geometric.data import Data

TEXT = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


def block(beginning):
    """The one block that begins with this."""
    [found] = [block for block in BLOCKS if block.startswith(beginning)]
    return found


def test_readme_asks_about_a_graph(capsys):
    exec(block("import networkx as nx\nfrom graphalgo import PathSolver"), {})
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "bridge" and last == "('home', 'bridge', 'market')"


def test_readme_builds_models_of_other_tasks():
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    graph = Data(edge_index=ring, num_nodes=3, x=torch.ones(3), edge_weight=torch.ones(3), y=torch.ones(3))
    names = {"dataset": [graph] * 5}
    exec(block("import torch\nfrom torch.utils.data import DataLoader"), names)
    assert names["logits"].shape == (5, 3)
    exec(block("from torch_geometric.data import Data"), names)
    assert names["logits"].shape == (1, 5) and names["logits"].isfinite().all()
