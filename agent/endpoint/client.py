"""One OpenAI-compatible endpoint: a request out, a reply in, every failure as one clear line.

It knows nothing of roles, prices or records. Retries with back-off after a refused connection, a
time-out, 408, 409, 429 and 5xx are the `openai` package's, which heeds Retry-After up to two
minutes and gives up at once where the endpoint asks for more.
"""

import json
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from agent.endpoint.errors import EndpointError, one_line

# Loaded with the first endpoint: replies in files are read without it.
if TYPE_CHECKING:
    import openai

# The client waits 0.5 s, 1 s, 2 s, ... (or as long as Retry-After says): four tries more ride out
# the limits of a minute's window, which a run of an hour will meet.
MAX_RETRIES = 4
REQUEST_SECONDS = 300.0  # a model that thinks before it writes a whole kernel
# A reply holds one kernel file (at most 1 MB) and what surrounds it.
MAX_REPLY_BYTES = 8 << 20
_LONGEST_WAIT = 120  # seconds; the openai package waits no longer for Retry-After
_NO_KEY = "none"  # the client insists on a key; local endpoints ignore it
_SECRET = "[secret]"  # noqa: S105 (what stands in its place)
# Placeholders for local endpoints ("none", "x") are no secrets, and may be words of the text.
_SHORTEST_SECRET = 8


class Wire(BaseModel):
    """JSON of an endpoint, which may add fields of its own."""

    model_config = ConfigDict(extra="ignore")


class FunctionCall(Wire):
    """The function that a model wants called."""

    name: str
    arguments: str = ""
    """JSON, if the model kept to it."""


class ToolCall(Wire):
    """One call of a tool."""

    id: str
    type: str = "function"
    function: FunctionCall


class Message(Wire):
    """The reply of the model."""

    content: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None


class Choice(Wire):
    """One answer; only the first is used."""

    message: Message
    finish_reason: str | None = None


class Usage(Wire):
    """Tokens as the endpoint counts them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class Completion(Wire):
    """The part of a reply that is used."""

    choices: list[Choice]
    usage: Usage | None = None


class Reply(BaseModel):
    """A reply and how it came."""

    model_config = ConfigDict(frozen=True)

    body: dict[str, Any]
    """The reply's JSON, whole."""
    completion: Completion
    """What of it is used."""
    seconds: float
    """Seconds from the first try to the reply."""
    retries: int
    """How many tries failed before."""

    @classmethod
    def of(cls, body: Any, *, seconds: float = 0.0, retries: int = 0) -> "Reply":
        """The reply in a body.

        Raises
        ------
        ValueError
            It is not a chat completion.
        """
        completion = Completion.model_validate(body)
        if not completion.choices:
            raise ValueError("no choices")
        return cls(body=body, completion=completion, seconds=seconds, retries=retries)


class Endpoint:
    """A model behind an OpenAI-compatible endpoint.

    Parameters
    ----------
    model : str
        The model's name at the endpoint.
    base_url : str, optional
        By default the environment variable ``OPENAI_BASE_URL``, else OpenAI itself. The key is
        ``OPENAI_API_KEY`` of the environment; an endpoint given by URL may do without.
    max_retries : int
        Tries after the first one.
    timeout : float
        Seconds that one try may take.

    Raises
    ------
    EndpointError
        Neither a key nor a URL is given, or the URL cannot be used.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        max_retries: int = MAX_RETRIES,
        timeout: float = REQUEST_SECONDS,
    ) -> None:
        import openai  # noqa: PLC0415

        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        key = os.environ.get("OPENAI_API_KEY") or None
        if base_url is None and key is None:
            raise EndpointError(
                f"model '{model}' needs OPENAI_API_KEY, or --base-url of an endpoint without a key"
            )
        if key is not None and not (key.isascii() and key.isprintable()):
            raise EndpointError("OPENAI_API_KEY contains invalid characters: correct it")
        self.model = model
        self._timeout = timeout
        self._secrets = [
            text for text in (key, _password(base_url)) if text and len(text) >= _SHORTEST_SECRET
        ]
        try:
            self.client = openai.OpenAI(
                base_url=base_url, api_key=key or _NO_KEY, max_retries=max_retries, timeout=timeout
            )
        except Exception as error:  # a malformed URL surfaces as an error of the HTTP library
            url = self.scrub(str(base_url))
            raise EndpointError(f"'{url}' is not a usable endpoint URL") from error
        self.url = _without_credentials(str(self.client.base_url))
        """Where requests go, without credentials."""

    def complete(self, payload: Mapping[str, Any]) -> Reply:
        """The reply to the body of a chat-completions request, without the model's name.

        Raises
        ------
        EndpointError
            No usable reply came.
        """
        import openai  # noqa: PLC0415

        client: Any = self.client  # its overloads do not take plain dictionaries
        start = time.monotonic()
        try:
            raw = client.chat.completions.with_raw_response.create(model=self.model, **payload)
            text = raw.http_response.text
        except openai.OpenAIError as error:
            raise self._to_endpoint_error(error) from error
        except UnicodeEncodeError as error:
            raise EndpointError(
                f"the request to {self.url} holds text that is not UTF-8"
            ) from error
        if len(text) > MAX_REPLY_BYTES:
            raise EndpointError(
                f"model endpoint {self.url} answered {len(text)} characters, too many for a reply"
            )
        try:
            body = _without_surrogates(json.loads(self.scrub(text)))
            return Reply.of(body, seconds=time.monotonic() - start, retries=int(raw.retries_taken))
        except (ValidationError, ValueError, RecursionError) as error:
            raise EndpointError(
                f"{self.url} does not answer as a chat endpoint does: check --base-url",
                status_code=200,
            ) from error

    def scrub(self, text: str) -> str:
        """Text without the key and without credentials of the URL."""
        for secret in self._secrets:
            text = text.replace(secret, _SECRET)
        return text

    def close(self) -> None:
        """Close the connections; a request that waits elsewhere ends when it can."""
        self.client.close()

    def _to_endpoint_error(self, error: "openai.OpenAIError") -> EndpointError:
        import openai  # noqa: PLC0415

        match error:
            case openai.APITimeoutError():
                what = f"did not answer within {self._timeout:g} s; try again later"
            case openai.APIConnectionError() if _was_cut_off(error):
                what = "broke off in the middle of its answer; try again later"
            case openai.APIConnectionError():
                what = "cannot be reached: start the endpoint or correct --base-url"
            case openai.AuthenticationError() | openai.PermissionDeniedError():
                what = f"refused the key ({error.status_code}): check OPENAI_API_KEY"
            case openai.NotFoundError():
                what = f"has no model '{self.model}' (404): check --model and --base-url"
            case openai.RateLimitError() if _long_wait(error):
                what = f"refuses (429) and asks to wait {_long_wait(error)} s: continue later"
            case openai.RateLimitError():
                what = f"still refuses after {self.client.max_retries} retries (429): wait"
            case openai.APIStatusError():
                what = f"answered {error.status_code}: {one_line(error.message)}"
            case _:
                what = f"failed: {one_line(error)}"
        return EndpointError(
            self.scrub(f"model endpoint {self.url} {what}"),
            status_code=getattr(error, "status_code", None),
            detail=self.scrub(one_line(getattr(error, "message", ""), 1000)),
        )


def _was_cut_off(error: "openai.APIConnectionError") -> bool:
    """Whether an answer had begun: the HTTP library then names the protocol, or a failed read."""
    return type(error.__cause__).__name__ in {"RemoteProtocolError", "ReadError", "DecodingError"}


def _long_wait(error: "openai.APIStatusError") -> str | None:
    """Seconds of Retry-After, if longer than the client waits."""
    seconds = error.response.headers.get("retry-after", "")
    too_long = seconds.isascii() and seconds.isdigit() and int(seconds[:9]) > _LONGEST_WAIT
    return seconds[:9] if too_long else None


def _without_surrogates(body: Any) -> Any:
    """A JSON value without lone surrogates, which can be neither written nor sent."""
    return json.loads(json.dumps(body, ensure_ascii=False).encode(errors="replace"))


def _password(url: str | None) -> str | None:
    try:
        return urlsplit(url or "").password
    except ValueError:
        return None


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
