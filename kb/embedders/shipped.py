"""The shipped model's files: what they are, where they are, and whether they are intact."""

import hashlib
import tomllib
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kb.errors import EmbedderError

MODEL_FOLDER = Path(__file__).resolve().parent.parent / "data" / "model"
MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
RECORD_FILE = "model.toml"
REMEDY = "reinstall it: pip install --force-reinstall --no-deps kernel-kb"


class ShippedFile(BaseModel):
    """Size and hash of one file of the model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bytes: int
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class ShippedModel(BaseModel):
    """What is read of the record in ``model.toml``."""

    model_config = ConfigDict(frozen=True)

    name: str
    dimensions: int
    max_tokens: int
    source: dict[str, str]
    """Where the weights come from, with their hash."""
    files: dict[str, ShippedFile]

    @property
    def identity(self) -> str:
        """Name and content hash, as an index records it."""
        return f"onnx:{self.name}@{self.files[MODEL_FILE].sha256[:8]}"


@cache
def shipped_model(folder: Path = MODEL_FOLDER) -> ShippedModel:
    """Read the record of the model in `folder`, and check that its files have their sizes.

    Raises
    ------
    EmbedderError
        The record or a file is missing, or a file has another size.
    """
    record = folder / RECORD_FILE
    try:
        model = ShippedModel.model_validate(tomllib.loads(record.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, ValidationError) as error:
        raise EmbedderError(
            f"the shipped embedding model's record {record} is missing or damaged; {REMEDY}"
        ) from error
    for name, expected in model.files.items():
        path = folder / name
        if not path.is_file():
            raise EmbedderError(f"the shipped embedding model lacks {path}; {REMEDY}")
        if path.stat().st_size != expected.bytes:
            raise EmbedderError(f"{path} is damaged (its size differs); {REMEDY}")
    return model


def read_shipped_file(name: str, folder: Path = MODEL_FOLDER) -> bytes:
    """Return the content of a model file after checking its sha256.

    Raises
    ------
    EmbedderError
        The file is missing, unreadable or not what was shipped.
    """
    expected = shipped_model(folder).files[name]
    path = folder / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EmbedderError(f"cannot read {path} ({error.strerror}); {REMEDY}") from error
    if hashlib.sha256(content).hexdigest() != expected.sha256:
        raise EmbedderError(f"{path} is damaged (its sha256 differs); {REMEDY}")
    return content
