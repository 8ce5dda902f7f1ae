"""Datasets that can be handed over: what is learned from private records, and what is published instead."""

from sfumato.publish.certified import CertifiedPublisher
from sfumato.publish.publisher import Publisher

__all__ = ["CertifiedPublisher", "Publisher"]
