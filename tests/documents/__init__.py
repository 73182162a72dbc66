"""The examples of the specification documents as inputs, and what Ozzie does with each (README.md)."""
