"""Gaussian-process building blocks."""
