"""Holdfast in web frameworks and job queues: a thin module for each."""
