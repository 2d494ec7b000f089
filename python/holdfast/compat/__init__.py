"""Holdfast locks with the interfaces of other libraries' locks."""
