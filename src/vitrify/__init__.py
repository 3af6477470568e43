"""Vitrify."""
