"""The knowledge base: entries, hierarchy, index, embedders, search and budgeted context."""

import os

__version__ = "0.1.0"

# onnxruntime, once loaded, else sends events to its maker and keeps an identifier in the user's
# cache folder; it reads this when it starts. A user who wants that sets the variable to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
