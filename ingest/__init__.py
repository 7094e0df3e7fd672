"""Sources, chunkers, tagging and the pipeline that feeds the index."""
