"""Imported by the process that runs are forked from: what each of them would load when it first needs it."""

import importlib

from clrs_bridge import sample

importlib.import_module("graphalgo.lightning_cli")  # first, since it keeps TensorBoard from more
importlib.import_module("torch.utils.tensorboard")
sample("bellman_ford", 4, 1, 0)
