"""Secrets: kept encrypted in one file, shown only to those whom they belong to (SX-1, MD-3; ADR 15)."""
