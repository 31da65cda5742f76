"""Settings for the whole suite."""

from hypothesis import settings

# the same examples in every run, and no deadline: machines are shared
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
