"""A PyTorch module read by its syntax tree: operators, shapes, bytes, FLOPs and the floor.

Nothing of the module is executed, and torch is not imported.
"""
