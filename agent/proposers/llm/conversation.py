"""One conversation with a model: a structured answer, with searches and one correction on the way.

It finds out what the endpoint supports. An endpoint that refuses `response_format`, tools or a
parameter is asked again without, and the schema then stands in the prompt.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.endpoint.client import Choice, Message
from agent.endpoint.errors import EndpointError, RefusedError, UnusableReplyError, one_line
from agent.proposers.llm.extract import Answer, NotUsableError, extract
from agent.proposers.llm.gateway import Gateway
from agent.proposers.llm.models import Code, wire_schema
from agent.proposers.llm.prompting import render
from agent.proposers.llm.search_tool import SPECIFICATION, SearchTool, arguments_as_json

# Malformed once can be chance; twice is a model that cannot do it.
ATTEMPTS = 2
# A kernel file and the thinking before it; also what one reply may cost at most.
MAX_REPLY_TOKENS = 32_000
# Calls of tools in one reply that are answered at all.
_MOST_CALLS_AT_ONCE = 8
# Statuses with which endpoints say that they do not know a part of the request. A wrong key (401,
# 403) and a limit (429) are not among them.
_UNSUPPORTED = frozenset({400, 404, 405, 415, 422, 500, 501})
_WORDS_FOR_FORMAT = ("response_format", "json_schema", "response mime", "structured output",
                     "guided", "grammar")  # fmt: skip
_WORDS_FOR_TOOLS = ("tool", "function call", "functions")


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the endpoint and the model support, as far as it is known."""

    structured: bool = True
    """`response_format` with a JSON schema."""
    tools: bool = True
    limit: str = "max_tokens"
    """Name of the parameter that limits a reply; newer models know `max_completion_tokens`."""

    @classmethod
    def from_request(cls, request: Mapping[str, Any], *, searches: bool) -> "Abilities":
        """What an earlier process knew when it sent a request.

        `searches`: whether it had a tool to offer at all.
        """
        newer = "max_completion_tokens" in request
        return cls(
            structured="response_format" in request,
            tools="tools" in request or not searches,
            limit="max_completion_tokens" if newer else "max_tokens",
        )

    def without(self, error: EndpointError, request: dict[str, Any]) -> "Abilities | None":
        """What is left after an endpoint refused a request; None if there is nothing to leave out.

        The endpoint's words decide. Where they name nothing that is known, 400 and 422 cost first
        the schema and then the tools.
        """
        if error.status_code not in _UNSUPPORTED:
            return None
        words = f"{error} {error.detail}".lower()
        if "max_completion_tokens" in words and "max_tokens" in request:
            return replace(self, limit="max_completion_tokens")
        vague = error.status_code in {400, 422}
        no_format = any(word in words for word in _WORDS_FOR_FORMAT)
        no_tools = any(word in words for word in _WORDS_FOR_TOOLS)
        if "response_format" in request and (no_format or (vague and not no_tools)):
            return replace(self, structured=False)
        if "tools" in request and (no_tools or vague):
            return replace(self, tools=False)
        return None


class Conversation:
    """One question to a model, until its answer can be used.

    Parameters
    ----------
    gateway : Gateway
        The way to the model.
    name : str
        Unique in the run, and the same when the run is repeated.
    system : str
        The system prompt.
    abilities : Abilities
        What is known so far; `abilities` of the object tells afterwards.
    tool : SearchTool, optional
        What the model may call before it answers.
    """

    def __init__(
        self,
        gateway: Gateway,
        name: str,
        system: str,
        abilities: Abilities | None = None,
        *,
        tool: SearchTool | None = None,
        max_reply_tokens: int = MAX_REPLY_TOKENS,
    ) -> None:
        self.name = name
        self.abilities = abilities or Abilities()
        self.tool = tool
        self._gateway = gateway
        self._system = system
        self._limit = max_reply_tokens
        self._turn = 0

    @property
    def found_chunks(self) -> tuple[str, ...]:
        """Ids of the chunks that searches gave."""
        return self.tool.found_chunks if self.tool is not None else ()

    def ask(
        self,
        kind: type[Answer],
        prompt: str,
        *,
        objection: Callable[[Answer], str] = lambda _: "",
        base: str | None = None,
    ) -> Answer:
        """The model's answer.

        Parameters
        ----------
        kind
            The form it has to have.
        objection
            Says what is wrong with an answer of the right form; empty if nothing.
        base
            The file that edits in the answer change.

        Raises
        ------
        RefusedError
            The model refuses, or the endpoint's filter withheld the answer.
        UnusableReplyError
            The answer cannot be used, even after a correction.
        LlmError
            The endpoint, the budget or the record fails (`Gateway.send`).
        """
        history: list[dict[str, Any]] = []
        problem, failed = "", 0
        while failed < ATTEMPTS:
            choice = self._send(kind, prompt, history)
            message = choice.message
            if message.refusal or choice.finish_reason == "content_filter":
                reason = one_line(message.refusal or "the endpoint's filter withheld the answer")
                raise RefusedError(f"model '{self._gateway.model}' refused ({self.name}): {reason}")
            tool = self.tool
            if message.tool_calls and tool is not None and self.abilities.tools:
                if tool.spent:
                    failed, problem = failed + 1, "it calls a tool that may not be called any more"
                history += self._answer_calls(message, tool)
                continue
            try:
                answer = self._read(choice, kind, base)
            except NotUsableError as error:
                problem = str(error)
            else:
                problem = objection(answer)
                if not problem:
                    return answer
            failed += 1
            history += [
                {"role": "assistant", "content": message.content or "(nothing)"},
                {"role": "user", "content": render("correction", problem=one_line(problem))},
            ]
        raise UnusableReplyError(
            f"model '{self._gateway.model}' gave an unusable answer {ATTEMPTS} times "
            f"({self.name}): {one_line(problem)}"
        )

    def _read(self, choice: Choice, kind: type[Answer], base: str | None) -> Answer:
        if choice.finish_reason == "length":
            raise NotUsableError(f"it was cut off after {self._limit} tokens: be shorter")
        return extract(choice.message.content or "", kind, base)

    def _send(self, kind: type[Answer], prompt: str, history: list[dict[str, Any]]) -> Choice:
        """The next reply, asked for with what the endpoint turns out to support."""
        while True:
            request = self._request(kind, prompt, history)
            turn, self._turn = self._turn, self._turn + 1
            try:
                return self._gateway.send(self.name, turn, request).choices[0]
            except EndpointError as error:
                reduced = self.abilities.without(error, request)
                if reduced is None or reduced == self.abilities:
                    raise
                self.abilities = reduced

    def _request(
        self, kind: type[Answer], prompt: str, history: list[dict[str, Any]]
    ) -> dict[str, Any]:
        tool = self.tool if self.abilities.tools else None
        # A file inside a JSON string is what models write worst.
        schema = wire_schema(kind) if kind is not Code else None
        if schema is not None and not self.abilities.structured:
            prompt += "\n" + render("format", schema=json.dumps(schema, indent=1))
        if tool is not None:
            prompt += "\n" + render("tools")
        request: dict[str, Any] = {
            "messages": [
                {"role": "system", "content": self._system},
                {"role": "user", "content": prompt},
                *history,
            ],
            self.abilities.limit: self._limit,
        }
        if schema is not None and self.abilities.structured:
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": kind.__name__.lower(), "schema": schema, "strict": True},
            }
        if tool is not None:
            request["tools"] = [SPECIFICATION]
            request["tool_choice"] = "none" if tool.spent else "auto"
        return request

    def _answer_calls(self, message: Message, tool: SearchTool) -> list[dict[str, Any]]:
        """The model's calls and their answers, as the next request has them."""
        calls = (message.tool_calls or [])[:_MOST_CALLS_AT_ONCE]
        turn: dict[str, Any] = {
            "role": "assistant",
            "content": message.content or "",
            "tool_calls": [],
        }
        answers = []
        for call in calls:
            function = {
                "name": call.function.name,
                "arguments": arguments_as_json(call.function.arguments),
            }
            turn["tool_calls"].append({"id": call.id, "type": "function", "function": function})
            answer = self._gateway.tool_answer(self.name, self._turn, call.id)
            if answer is None:
                answer = tool.call(call.function.name, call.function.arguments)
            else:
                tool.recall(answer)
            answers.append({"role": "tool", "tool_call_id": call.id, "content": answer})
        return [turn, *answers]
