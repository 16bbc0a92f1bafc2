"""Speed and memory against peers, ratios from one run: ``python -m benchmarks.samplers``, ``.mixers``.

``python -m benchmarks.results`` puts what was measured, and the scores of trained runs, into the docs.
"""
