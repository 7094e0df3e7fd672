"""A question to a model, through the real client: what endpoints and models get wrong."""

import itertools
import json
import time

import pytest
from scripted_endpoint import Answer, calls, completion, error, says
from search_states import Form

from agent.endpoint.client import Endpoint as Client
from agent.endpoint.errors import EndpointError, RefusedError, UnusableReplyError
from agent.proposers.llm.conversation import ATTEMPTS, Abilities, Conversation
from agent.proposers.llm.edits import EditError, apply_edits, read_edits
from agent.proposers.llm.extract import NotUsableError, extract
from agent.proposers.llm.models import Code, Plans, wire_schema
from agent.proposers.llm.record import read_exchanges

GOOD = {"note": "n", "code": "x = 1\n"}


@pytest.fixture
def talk(live, endpoint, tmp_path):
    """Asks for code; returns the answer, the server and the conversation."""

    runs = itertools.count()

    def run(*script, options=None, kind=Code, **server_options):
        server = endpoint(*script, **server_options)
        gateway = live(server, tmp_path / f"run{next(runs)}", **(options or {}))
        conversation = Conversation(gateway, "c", "system")
        return conversation.ask(kind, "prompt"), server, conversation

    return run


def test_the_request_has_a_strict_schema_that_endpoints_take(talk):
    answer, server, _ = talk(says(GOOD), kind=Form)
    assert answer == Form(**GOOD)
    (request,) = server.requests
    assert request["model"] == "model-1"
    assert request["max_tokens"] > 0
    schema = request["response_format"]["json_schema"]
    assert schema["strict"] is True
    assert schema["schema"]["additionalProperties"] is False
    assert set(schema["schema"]["required"]) == {"note", "code"}
    assert "maxLength" not in json.dumps(schema)


def test_a_schema_keeps_properties_whose_names_are_keywords():
    schema = Plans.model_json_schema()
    assert "title" in json.dumps(schema)
    wire = wire_schema(Plans)
    assert set(wire["$defs"]["Plan"]["properties"]) == set(schema["$defs"]["Plan"]["properties"])
    assert "title" not in json.dumps(wire)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        f"Here it is:\n```json\n{json.dumps(GOOD)}\n```\nDone.",
        f"Here it is: {json.dumps(GOOD)} Done.",
        '{"note": "n", "code": "x = 1\n"}',  # a line break as it is
    ],
)
def test_json_is_found_among_words(talk, text):
    answer, server, _ = talk(says(text))
    assert answer.code.strip() == "x = 1"
    assert len(server.requests) == 1


@pytest.mark.parametrize("fence", ["```python\n{}```", "~~~\n{}~~~", "````py\n{}````\n"])
def test_code_in_one_fence_is_code(talk, fence):
    body = 's = """\n{"a": 1}\n"""\n'
    answer, _, _ = talk(says("Faster, since wider.\n" + fence.replace("{}", body)))
    assert answer.code == body
    assert answer.note == "Faster, since wider."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it is empty"),
        ("no code at all", "no code block"),
        ("```python\nx = 1\n", "not closed"),
        ("```python\nx\n```\n```python\ny\n```", "2 code blocks"),
        ('{"note": "n"}', "code: Field required"),
        ('{"note": "n", "code": ""}', "code: "),
        ('{"note": "n", "code": "x", "extra": 1}', "extra: "),
        ("[" * 100_000, "no code block"),
        ('{"a":' * 100_000, "no code block"),
        (json.dumps({"note": "", "code": "x" * 1_000_001}), "at most 1000000"),
    ],
)
def test_a_malformed_answer_is_corrected_once(talk, text, told):
    answer, server, _ = talk(says(text), says(GOOD))
    assert answer == Code(**GOOD)
    correction = server.requests[1]["messages"][-1]
    assert correction["role"] == "user"
    assert told in correction["content"]
    with pytest.raises(UnusableReplyError) as raised:
        talk(says(text), says(text))
    assert f"unusable answer {ATTEMPTS} times" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_answer_that_was_cut_off_is_not_taken(talk):
    cut = says("```python\nx = 1\n```", finish="length")
    answer, server, _ = talk(cut, says(GOOD))
    assert answer == Code(**GOOD)
    assert "cut off" in server.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    "bad", [Answer(completion(None, refusal="I will\nnot.")),
            Answer(completion("x", finish="content_filter"))]
)  # fmt: skip
def test_a_refusal_is_not_asked_again(talk, bad):
    with pytest.raises(RefusedError, match="refused") as raised:
        talk(bad, says(GOOD))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("status", [429, 500, 503, 408])
def test_a_passing_trouble_is_waited_out(talk, status, tmp_path):
    answer, server, _ = talk(error(status, "later"), error(status, "later"), says(GOOD))
    assert answer == Code(**GOOD)
    assert len(server.requests) == 3
    (exchange,) = read_exchanges(tmp_path / "run0")
    assert exchange.retries == 2


def test_retry_after_is_heeded(talk):
    began = time.monotonic()
    talk(error(429, "later", Retry_After="1.2"), says(GOOD))
    assert time.monotonic() - began >= 1.2


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (error(401, "no such key"), "check OPENAI_API_KEY"),
        (error(403, "not yours"), "check OPENAI_API_KEY"),
        (error(404, "The model `model-1` does not exist"), "has no model 'model-1'"),
        (error(429, "quota"), "429"),
        (error(500, "boom"), "answered 500: "),
        (Answer("<html>a proxy</html>"), "does not answer as a chat endpoint"),
        (Answer({"choices": []}), "does not answer as a chat endpoint"),
        (Answer(completion("x"), truncate=True), "broke off"),
        (Answer(completion("x"), wait=1.0), "did not answer within 0.3 s"),
    ],
)
def test_a_lasting_trouble_is_one_line_and_recorded(talk, answer, told, tmp_path):
    with pytest.raises(EndpointError) as raised:
        talk(answer, default=answer, options={"max_retries": 0, "timeout": 0.3})
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)
    exchange = read_exchanges(tmp_path / "run0")[-1]
    assert exchange.failure.message == str(raised.value)
    assert exchange.reply is None


def test_a_wait_that_is_too_long_is_told_at_once(talk):
    with pytest.raises(EndpointError, match="asks to wait 3600 s"):
        talk(error(429, "quota", Retry_After="3600"))


@pytest.mark.parametrize("key", ["sk-\n123456789", "sk-ä23456789"])
def test_a_key_that_cannot_be_sent_is_told(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(EndpointError, match="OPENAI_API_KEY contains invalid characters") as raised:
        Client("m")
    assert key not in str(raised.value)


def test_half_a_character_does_not_spoil_the_record(talk, tmp_path):
    body = completion("?")
    text = json.dumps(body).replace('"?"', json.dumps('{"note": "\ud83d", "code": "x"}'))
    answer, _, _ = talk(Answer(text))
    assert answer.note == "?"
    assert len(read_exchanges(tmp_path / "run0")) == 1


@pytest.mark.parametrize("line", ["```x\n", "```\n", "````\n```\n", "~~~~a`\n", "{", "[", '"'])
def test_no_text_takes_long_to_read(line):
    text = line * (400_000 // len(line))
    began = time.monotonic()
    with pytest.raises(NotUsableError):
        extract(text, Code)
    assert time.monotonic() - began < 5


def test_a_fence_may_hold_shorter_fences():
    found = extract('Note.\n````python\ns = """\n```\nx\n```\n"""\n````\n', Code)
    assert found.code == 's = """\n```\nx\n```\n"""\n'
    assert found.note == "Note."


def test_a_truncated_body_is_tried_again(talk):
    answer, server, _ = talk(Answer(completion(json.dumps(GOOD)), truncate=True), says(GOOD))
    assert answer == Code(**GOOD)
    assert len(server.requests) == 2


def test_an_endpoint_that_is_down_is_told(live, tmp_path):
    class Down:
        url = "http://127.0.0.1:9/v1"

    conversation = Conversation(live(Down, max_retries=0), "c", "s")
    with pytest.raises(EndpointError, match="cannot be reached"):
        conversation.ask(Code, "p")


def test_without_a_key_and_a_url_nothing_is_opened():
    with pytest.raises(EndpointError, match="needs OPENAI_API_KEY"):
        Client("m")


@pytest.mark.parametrize("status", [400, 422, 500])
def test_without_structured_output_the_schema_stands_in_the_prompt(talk, status):
    refusal = error(status, "response_format json_schema is not supported")
    answer, server, conversation = talk(
        refuse={"response_format": refusal}, default=says(f"```json\n{json.dumps(GOOD)}\n```"),
        options={"max_retries": 0}, kind=Form,
    )  # fmt: skip
    assert answer == Form(**GOOD)
    assert conversation.abilities == Abilities(structured=False)
    assert len(server.requests) == 2
    assert '"properties"' in server.requests[-1]["messages"][1]["content"]


def test_a_newer_model_gets_its_own_name_of_the_limit(talk):
    told = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    _, server, conversation = talk(
        refuse={"max_tokens": error(400, told)}, default=says(GOOD), kind=Form
    )
    assert "max_completion_tokens" in server.requests[-1]
    assert "response_format" in server.requests[-1]
    assert conversation.abilities.limit == "max_completion_tokens"


def test_a_request_that_is_refused_whatever_is_left_out_ends(talk):
    with pytest.raises(EndpointError, match="answered 400"):
        talk(default=error(400, "no"))


def test_a_tool_call_that_nobody_offered_is_an_unusable_answer(talk):
    with pytest.raises(UnusableReplyError, match="it is empty"):
        talk(calls("x"), calls("x"))


def test_the_key_is_in_no_record_and_no_message(live, endpoint, tmp_path, monkeypatch):
    key = "sk-very-secret-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    server = endpoint(says(GOOD | {"note": f"the key is {key}"}), error(401, f"bad key {key}"))
    gateway = live(server)
    assert Conversation(gateway, "a", "s").ask(Code, "p").note == "the key is [secret]"
    with pytest.raises(EndpointError) as raised:
        Conversation(gateway, "b", "s").ask(Code, "p")
    assert server.headers[0]["authorization"] == f"Bearer {key}"
    texts = [path.read_text() for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(texts) == 2
    for text in (*texts, str(raised.value)):
        assert key not in text


def test_credentials_of_the_url_are_used_and_shown_nowhere(live, endpoint, tmp_path):
    server = endpoint(says(GOOD), error(400, "no, pass-word-1"), error(400, "no, pass-word-1"))
    plain = server.url
    server.url = server.url.replace("127.0.0.1", "user:pass-word-1@127.0.0.1")
    gateway = live(server)
    Conversation(gateway, "a", "s").ask(Form, "p")
    assert server.headers[0]["authorization"].startswith("Basic ")
    with pytest.raises(EndpointError) as raised:
        Conversation(gateway, "b", "s").ask(Form, "p")
    assert plain in str(raised.value)
    texts = [path.read_text() for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(texts) == 3
    assert not any("pass-word-1" in text for text in (*texts, str(raised.value)))


EDIT = """Smaller tiles fill the card.
<<<<<<< SEARCH
BLOCK = 128
=======
BLOCK = 64
>>>>>>> REPLACE

<<<<<<< SEARCH
    x = load(BLOCK)
    return x
=======
    return load(BLOCK) * 2
>>>>>>> REPLACE
"""
FILE = "BLOCK = 128  \nWARPS = 4\ndef f():\n    x = load(BLOCK)\n    return x\n"


@pytest.mark.parametrize("text", [EDIT, f"```\n{EDIT}```", f"```diff\n{EDIT}\n```\n"])
def test_edits_change_the_lines_that_they_name(live, endpoint, text):
    server = endpoint(says(text))
    answer = Conversation(live(server), "c", "s").ask(Code, "p", base=FILE)
    assert answer.code == "BLOCK = 64\nWARPS = 4\ndef f():\n    return load(BLOCK) * 2\n"
    assert answer.note == "Smaller tiles fill the card."
    assert "response_format" not in server.requests[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<<<<<<< SEARCH\nx = 2\n=======\nx\n>>>>>>> REPLACE", "is not in the file"),
        ("<<<<<<< SEARCH\nx = 1\n=======\nx\n>>>>>>> REPLACE", "more than once"),
        ("<<<<<<< SEARCH\n \n=======\nx\n>>>>>>> REPLACE", "looks for nothing"),
        ("<<<<<<< SEARCH\nx = 1\n=======\nx", "has no end"),
    ],
)
def test_an_edit_that_fits_nowhere_is_told(text, told):
    with pytest.raises(EditError, match=told):
        apply_edits("x = 1\ny\nx = 1\n", read_edits(text)[0])


def test_edits_take_time_in_proportion_to_the_file():
    file = "x\n" * 400_000
    search = "x\n" * 100_000 + "y\n"
    began = time.perf_counter()
    for text in (search, search[:-2]):
        with pytest.raises(EditError):
            apply_edits(file, read_edits(f"<<<<<<< SEARCH\n{text}=======\n>>>>>>> REPLACE")[0])
    assert time.perf_counter() - began < 5.0
    many = "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n" * 101
    with pytest.raises(EditError, match="more than 100 edits"):
        apply_edits(file, read_edits(many)[0])


def test_edits_of_no_file_are_told_and_corrected(live, endpoint):
    server = endpoint(says(EDIT), says("Whole.\n```python\nx = 1\n```"))
    assert Conversation(live(server), "c", "s").ask(Code, "p").code == "x = 1\n"
    assert "no file to edit" in server.requests[1]["messages"][-1]["content"]
