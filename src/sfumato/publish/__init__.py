"""Datasets that can be handed over: what is learned from private records, and what is published instead."""

__all__: list[str] = []
