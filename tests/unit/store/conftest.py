"""The bare repository that store tests start from."""

from tests.git_worlds import remote

__all__ = ["remote"]
