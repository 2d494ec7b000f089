"""Locks of Holdfast with the faces of other libraries' locks."""
