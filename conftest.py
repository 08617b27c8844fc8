"""Doctests are collected from every module; kernels need triton, which only CUDA builds of torch bring."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("triton") else ["src/probsym/ops/*_triton.py"]
