"""The twelve graph tasks of CLRS-30: samplers and labels identical to dm-clrs's, without dm-clrs."""

from clrs_bridge.samplers import official, sample
from clrs_bridge.tasks import TASKS, Task, get_task

__all__ = ["TASKS", "Task", "get_task", "official", "sample"]
