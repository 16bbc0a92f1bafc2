"""Runs small enough for a test, through the command line; see ``data/tiny.yaml``."""

import math
from pathlib import Path

import torch

from graphalgo.cli import main

CONFIG = Path(__file__).parent / "data" / "tiny.yaml"


def fit_arguments(run_dir, *options):
    return ["fit", "--config", str(CONFIG), "--run_dir", str(run_dir), *map(str, options)]


def fit(run_dir, *options):
    """Trains; returns the run folder."""
    assert main(fit_arguments(run_dir, *options)) == 0
    return Path(run_dir)


def read_checkpoint(run_dir, name="last"):
    return torch.load(Path(run_dir) / "checkpoints" / f"{name}.ckpt", weights_only=True)


def differences(left, right, at=""):
    """Where two nested structures differ, NaN being equal to itself; a bit is a difference."""
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        same = left.dtype == right.dtype and torch.equal(left, right)
        return [] if same else [at]
    if isinstance(left, dict) and isinstance(right, dict):
        keys = {*left, *right}
        missing = object()
        return [
            d
            for key in keys
            for d in differences(left.get(key, missing), right.get(key, missing), f"{at}.{key}")
        ]
    if isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        return [
            d
            for k, (one, other) in enumerate(zip(left, right, strict=True))
            for d in differences(one, other, f"{at}.{k}")
        ]
    both_nan = all(isinstance(value, float) and math.isnan(value) for value in (left, right))
    return [] if left == right or both_nan else [at]
