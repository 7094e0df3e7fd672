"""What the knowledge base is worth to a language model."""
