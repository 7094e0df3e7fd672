"""Tokens, scopes, Host and Origin, and what a server refuses to do."""

import base64
import json
import stat

import pytest
from conftest import QUERY
from live import serving_here
from test_endpoints import assert_problem

from kb.errors import IndexUnavailableError, KbError
from server.run import check_exposure
from server.settings import Settings
from server.tokens import TokenFile

SEARCH = {"query": QUERY}


@pytest.fixture
def tokens(tmp_path):
    return TokenFile(tmp_path / "tokens.json")


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_without_tokens_on_loopback_any_authorization_is_accepted(client):
    for header in ("Bearer sk-whatever", "Basic !!!", "nonsense", ""):
        answer = client.post("/v1/search", json=SEARCH, headers={"Authorization": header})
        assert answer.status_code == 200


def test_once_a_token_exists_every_request_needs_one(client, tokens):
    assert client.get("/v1/tree").status_code == 200
    _, secret = tokens.create("read")
    refused = client.get("/v1/tree")
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert_problem(refused)
    for path in ("/v1/search", "/v1/context", "/mcp", "/v1/vector_stores/kernel-kb/search"):
        assert client.post(path, json=SEARCH).status_code == 401
    for path in ("/metrics", "/openapi.json", "/nowhere"):
        assert client.get(path).status_code == 401
    assert client.get("/v1/tree", headers=bearer(secret)).status_code == 200
    assert client.get("/v1/tree", headers=bearer(secret + "x")).status_code == 401
    assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200


def test_a_token_serves_as_a_password_for_browsers(client, tokens):
    _, secret = tokens.create("read")
    asked = client.get("/v1/tree", headers={"Accept": "text/html"})
    assert asked.headers["www-authenticate"].startswith("Basic")
    password = base64.b64encode(f"me:{secret}".encode()).decode()
    answer = client.get("/v1/tree", headers={"Authorization": f"Basic {password}"})
    assert answer.status_code == 200


def test_a_revoked_token_is_refused_at_once_and_the_server_stays_closed(client, tokens):
    record, secret = tokens.create("read", "laptop")
    assert client.get("/v1/tree", headers=bearer(secret)).status_code == 200
    tokens.revoke("laptop")
    assert client.get("/v1/tree", headers=bearer(secret)).status_code == 401
    assert client.get("/v1/tree").status_code == 401
    with pytest.raises(KbError):
        tokens.revoke(record.id)


def test_tokens_are_kept_hashed_in_a_file_of_their_owner_alone(tokens, tmp_path):
    _, secret = tokens.create("admin", "ci")
    path = tmp_path / "tokens.json"
    assert secret not in path.read_text()
    assert secret[-20:] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_file_open_to_others_or_damaged_closes_the_server(client, tokens, tmp_path):
    _, secret = tokens.create("read")
    path = tmp_path / "tokens.json"
    path.chmod(0o644)
    with pytest.raises(IndexUnavailableError):
        TokenFile(path).records()
    path.chmod(0o600)
    path.write_text("{}")
    answer = client.get("/v1/tree", headers=bearer(secret))
    assert answer.status_code == 503
    assert_problem(answer)


def test_a_refused_request_is_answered_before_its_body_is_read(live_with_tokens):
    import socket

    with socket.create_connection(("127.0.0.1", live_with_tokens.port), timeout=10) as connection:
        connection.sendall(
            b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n{"
        )
        assert connection.recv(4096).startswith(b"HTTP/1.1 401")


@pytest.fixture
def live_with_tokens(built, tokens, tmp_path):
    tokens.create("read")
    with serving_here(built / "index", tmp_path) as server:
        yield server


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8040", "localhost.evil.example", "127.0.0.1.nip.io", "",
        "localhost@evil.example", "evil.example/localhost", "8.8.8.8", "[::ffff:8.8.8.8]",
        "localhost:port",
    ],
)  # fmt: skip
def test_a_foreign_host_is_refused_for_http_and_mcp_alike(client, host):
    for path in ("/v1/search", "/mcp", "/healthz"):
        answer = client.post(path, json=SEARCH, headers={"Host": host})
        assert answer.status_code == 421
        assert_problem(answer)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1:8040", "[::1]:8040"])
def test_its_own_names_are_accepted(client, host):
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


def test_a_host_can_be_allowed(make_client):
    client = make_client(allowed_hosts="kb.example, other.example")
    assert client.get("/healthz", headers={"Host": "kb.example:1"}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1", "file://"]
)
def test_a_foreign_origin_is_refused_for_http_and_mcp_alike(client, origin):
    for path in ("/v1/search", "/mcp"):
        answer = client.post(path, json=SEARCH, headers={"Origin": origin})
        assert answer.status_code == 403
        assert_problem(answer)


def test_its_own_pages_may_ask(client):
    headers = {"Origin": "http://localhost", "Host": "localhost"}
    assert client.post("/v1/search", json=SEARCH, headers=headers).status_code == 200


def test_cors_is_closed_unless_opened(make_client):
    preflight = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    closed = make_client().options("/v1/search", headers=preflight)
    assert closed.status_code == 403
    assert "access-control-allow-origin" not in closed.headers
    opened = make_client(cors_origins="https://app.example")
    allowed = opened.options("/v1/search", headers=preflight)
    assert allowed.headers["access-control-allow-origin"] == "https://app.example"
    answer = opened.post("/v1/search", json=SEARCH, headers={"Origin": "https://app.example"})
    assert answer.status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "kb.example"])
def test_it_refuses_to_listen_to_others_without_tokens(host, tmp_path, tokens):
    settings = Settings(host=host, tokens=tmp_path / "tokens.json")
    with pytest.raises(KbError, match="without tokens"):
        check_exposure(settings)
    tokens.create("read")
    check_exposure(settings)


def test_ingest_needs_an_admin_token_to_exist(tmp_path, tokens):
    settings = Settings(allow_ingest=True, tokens=tmp_path / "tokens.json")
    tokens.create("read")
    with pytest.raises(KbError, match="admin"):
        check_exposure(settings)
    tokens.create("admin")
    check_exposure(settings)


def test_the_token_command_creates_lists_and_revokes(cli, tmp_path):
    place = ("--tokens", tmp_path / "mine.json")
    made = cli("token", "create", "--scope", "read", "--name", "ci", *place)
    assert made.status == 0
    secret = made.out.strip()
    assert TokenFile(tmp_path / "mine.json").find(secret).name == "ci"
    listed = cli("token", "list", "--json", *place)
    assert [each["name"] for each in json.loads(listed.out)] == ["ci"]
    assert "sha256" not in listed.out
    assert cli("token", "revoke", "ci", *place).status == 0
    assert json.loads(cli("token", "list", "--json", *place).out) == []
    assert "kb token list" in cli("token", "revoke", "ci", *place).error()


def test_the_serve_command_says_in_one_line_why_it_does_not_start(cli, tmp_path):
    empty = ("--tokens", tmp_path / "none.json")
    assert "without tokens" in cli("serve", "--host", "0.0.0.0", *empty).error()
    assert "max-k" in cli("serve", "--max-k", "0", *empty).error()


ELSEWHERE = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.mark.parametrize("path", ["/context?kernel=tl.dot(", "/?q=softmax", "/v1/index", "/mcp"])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_a_page_elsewhere_asks_without_an_origin_is_refused(client, path, site):
    answer = client.get(path, headers=ELSEWHERE | {"sec-fetch-site": site})
    assert answer.status_code == 403
    assert_problem(answer)


def test_a_link_from_elsewhere_opens_a_page_but_only_a_click_asks(client):
    assert client.get("/", headers=LINK).status_code == 200
    assert client.get("/?q=softmax", headers=LINK).status_code == 403
    assert client.get("/?q=softmax", headers=LINK | {"sec-fetch-user": "?1"}).status_code == 200
    frame = LINK | {"sec-fetch-dest": "iframe", "sec-fetch-user": "?1"}
    assert client.get("/", headers=frame).status_code == 403


def test_its_own_pages_and_allowed_ones_are_not_refused(make_client):
    client = make_client(cors_origins=("https://ours.example",))
    for site in ("same-origin", "none"):
        assert client.get("/v1/index", headers=ELSEWHERE | {"sec-fetch-site": site}).is_success
    allowed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
    allowed["origin"] = "https://ours.example"
    assert client.get("/v1/index", headers=allowed).status_code == 200


def test_a_token_file_that_is_opened_to_others_later_closes_the_server(client, tokens, tmp_path):
    _, token = tokens.create("read")
    headers = {"Authorization": f"Bearer {token}"}
    assert client.get("/v1/index", headers=headers).status_code == 200
    path = tmp_path / "tokens.json"
    path.chmod(0o644)
    answer = client.get("/v1/index", headers=headers)
    assert answer.status_code == 503
    assert "chmod 600" in assert_problem(answer)["detail"]
    path.chmod(0o600)
    assert client.get("/v1/index", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b'{"profile": {"\\ud800": 1}}',
        b'{"query": "x", "profile": {"a\\udfff": 1}}',
        b'{"profile": {"' + b"a" * 501 + b'": 1}}',
        b"{" + b'"profile": {' + b",".join(b'"a%d": 1' % n for n in range(10_001)) + b"}}",
    ],
    ids=["alone", "beside a query", "long", "many"],
)
def test_a_profile_with_impossible_names_is_refused(client, body):
    answer = client.post("/v1/context", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert_problem(answer)
