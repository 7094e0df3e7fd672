"""Search as OpenAI offers it on vector stores, so that its clients work unchanged."""
