"""The tables and figures of the five papers, run again: python -m benchmarks.papers"""
