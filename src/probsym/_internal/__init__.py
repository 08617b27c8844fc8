"""Plumbing that no user calls: saving, inspecting callables, atomic writes, argument checks."""
