"""The sans-I/O core: records, fold, framing, presentation and charts.

Nothing in this folder imports asyncio, reads a clock or does I/O; callers pass ``now_ms``.
"""
