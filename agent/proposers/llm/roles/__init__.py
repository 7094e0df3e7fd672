"""What a model is asked for: planner, coder, fixer, reflector and combiner."""
