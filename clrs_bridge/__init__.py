"""The twelve graph tasks of CLRS-30: samplers and labels identical to dm-clrs's, without dm-clrs."""

from clrs_bridge.datamodule import CLRSDataModule, TestSet
from clrs_bridge.dataset import CLRSDataset
from clrs_bridge.labels import label
from clrs_bridge.samplers import official, sample
from clrs_bridge.tasks import TASKS, Task, get_task
from clrs_bridge.upstream import from_feedback

__all__ = [
    "TASKS",
    "CLRSDataModule",
    "CLRSDataset",
    "Task",
    "TestSet",
    "from_feedback",
    "get_task",
    "label",
    "official",
    "sample",
]
