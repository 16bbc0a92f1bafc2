"""The search benchmark: generators, token sequences and graphs of the question which vertex comes next."""

from search_bench.datamodule import SearchDataModule, SearchTestSet
from search_bench.features import to_pair_batch
from search_bench.generate import at_lookahead, balanced, random_graphs
from search_bench.handset import hand_set_propagator
from search_bench.lookahead import lookahead, max_lookahead, right_next, shortest_next, valid_next
from search_bench.names import Names, ToNames
from search_bench.questions import Questions, join, read_questions
from search_bench.tokens import Question, from_data, read_tokens, to_data, write_tokens

__all__ = [
    "Names",
    "Question",
    "Questions",
    "SearchDataModule",
    "SearchTestSet",
    "ToNames",
    "at_lookahead",
    "balanced",
    "from_data",
    "hand_set_propagator",
    "join",
    "lookahead",
    "max_lookahead",
    "random_graphs",
    "read_questions",
    "read_tokens",
    "right_next",
    "shortest_next",
    "to_data",
    "to_pair_batch",
    "valid_next",
    "write_tokens",
]
