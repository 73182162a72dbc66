"""Secrets: kept encrypted in one file, shown only to those whom they belong to (ADR 15)."""
