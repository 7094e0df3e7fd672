"""A real HTTP server that plays an OpenAI-compatible endpoint by a script, one for each role."""

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROLES = {
    "planner": "# Your task\nPlan ",
    "coder": "begin plan-----",
    "fixer": "Find the cause first",
    "combiner": "The two kernels got faster by different means.",
    "reflector": "say what the numbers say about its hypothesis",
}


@dataclass
class Answer:
    """One answer: a status and a body, and what goes wrong on the way."""

    body: object = None
    status: int = 200
    headers: dict = field(default_factory=dict)
    wait: float = 0.0
    truncate: bool = False
    """Promise the whole body, send half of it, and hang up."""
    hold: threading.Event | None = None
    """Answer when this is set."""


def completion(content, *, finish="stop", usage=(100, 50), **message):
    body = {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{
            "index": 0, "finish_reason": finish,
            "message": {"role": "assistant", "content": content, "refusal": None} | message,
        }],
    }  # fmt: skip
    if usage:
        total = sum(usage)
        body["usage"] = {
            "prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": total,
        }  # fmt: skip
    return body


def says(value, **options):
    """An answer with this text, or this object as JSON."""
    text = value if isinstance(value, str) else json.dumps(value)
    return Answer(completion(text, **options))


def calls(*queries, name="search_kb", arguments=None):
    """An answer that calls a tool, once for each query."""
    made = [
        {
            "id": f"call-{number}-{query[:8]}", "type": "function",
            "function": {
                "name": name,
                "arguments": json.dumps({"query": query}) if arguments is None else arguments,
            },
        }
        for number, query in enumerate(queries)
    ]  # fmt: skip
    return Answer(completion(None, finish="tool_calls", tool_calls=made))


def error(status, message, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer({"error": {"message": message}}, status, named)


class Endpoint:
    """Answers each role from its own list; `default` is for who has none left.

    An entry may be a function of the request.

    `refuse` maps a key of requests (`tools`, `response_format`) to the answer for those that
    have it.
    """

    def __init__(self, *script, refuse=None, default=None, **roles):
        self.script, self.roles = list(script), {k: list(v) for k, v in roles.items()}
        self.refuse, self.default = refuse or {}, default
        self.requests, self.headers, self.asked = [], [], []
        self.concurrent = self.most_concurrent = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = outer.answer(request, dict(self.headers))
                try:
                    self.reply(answer)
                except OSError:
                    pass  # the client has gone
                finally:
                    with outer._lock:
                        outer.concurrent -= 1

            def reply(self, answer):
                if answer.hold is not None:
                    answer.hold.wait(20)
                time.sleep(answer.wait)
                text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
                data = text.encode()
                self.send_response(answer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in ({"Retry-After": "0.01"} | answer.headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data[: len(data) // 2] if answer.truncate else data)
                if answer.truncate:
                    self.wfile.flush()
                    self.connection.close()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, request, headers):
        with self._lock:
            self.requests.append(request)
            self.headers.append({name.lower(): value for name, value in headers.items()})
            role = role_of(request)
            self.asked.append(role)
            self.concurrent += 1
            self.most_concurrent = max(self.most_concurrent, self.concurrent)
            for key, answer in self.refuse.items():
                if key in request:
                    return answer
            left = self.roles.get(role) if role in self.roles else self.script
            if left:
                answer = left.pop(0)
                return answer(request) if callable(answer) else answer
            assert self.default is not None, f"the script has no answer for {role}"
            return self.default

    def of(self, role):
        """The requests of a role."""
        return [each for each in self.requests if role_of(each) == role]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def role_of(request):
    text = text_of(request)
    return next((role for role, words in ROLES.items() if words in text), "?")


def text_of(request):
    """The first prompt, beside the system's."""
    return next((m["content"] for m in request["messages"] if m["role"] == "user"), "")
