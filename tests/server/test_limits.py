"""Every limit is enforced, configurable, and answered with a problem document."""

import pytest
from conftest import QUERY
from test_endpoints import assert_problem

from server.ratelimit import RateLimiter
from server.settings import Settings


@pytest.mark.parametrize(
    ("setting", "path", "body"),
    [
        ({"max_k": 5}, "/v1/search", {"query": QUERY, "k": 6}),
        (
            {"max_k": 5},
            "/v1/vector_stores/kernel-kb/search",
            {"query": QUERY, "max_num_results": 6},
        ),
        ({"max_query_chars": 64}, "/v1/search", {"query": "x" * 65}),
        ({"max_query_chars": 64}, "/v1/context", {"query": "x" * 65}),
        ({"max_query_chars": 64}, "/v1/vector_stores/kernel-kb/search", {"query": ["x" * 65]}),
        ({"max_kernel_chars": 64}, "/v1/context", {"kernel": "x" * 65}),
        ({"max_budget": 1000}, "/v1/context", {"query": QUERY, "max_tokens": 1001}),
        ({"max_budget": 1000}, "/v1/context", {"query": QUERY, "max_chars": 1001}),
    ],
)
def test_a_lower_limit_is_kept(make_client, setting, path, body):
    answer = make_client(**setting).post(path, json=body)
    assert answer.status_code == 422
    assert str(next(iter(setting.values()))) in assert_problem(answer)["detail"]


def test_a_body_that_is_too_large_is_refused(make_client):
    client = make_client(max_body_bytes=2048)
    answer = client.post("/v1/search", json={"query": "x" * 4096})
    assert answer.status_code == 413
    assert_problem(answer)

    def parts():  # without a Content-Length
        for _ in range(10):
            yield b"x" * 1024

    for path in ("/v1/search", "/mcp"):
        assert client.post(path, content=parts()).status_code == 413


def test_a_query_of_ten_megabytes_is_refused(live):
    answer = live.post("/v1/search", json={"query": "x" * 10_000_000})
    assert answer.status_code == 413
    assert_problem(answer)


def test_a_client_that_asks_too_often_is_told_when_to_come_back(make_client):
    client = make_client(rate_per_second=0.5, rate_burst=3)
    assert [client.get("/v1/index").status_code for _ in range(3)] == [200] * 3
    answer = client.get("/v1/index")
    assert answer.status_code == 429
    assert_problem(answer)
    assert 1 <= int(answer.headers["retry-after"]) <= 2
    assert client.get("/healthz").status_code == 200


def test_rate_limits_add_up_over_processes_and_stay_apart_for_clients(tmp_path):
    first = RateLimiter(tmp_path / "rates.sqlite", rate=0.001, burst=4)
    second = RateLimiter(tmp_path / "rates.sqlite", rate=0.001, burst=4)
    granted = [limiter.wait("me") == 0 for limiter in (first, second) * 3]
    assert granted == [True] * 4 + [False] * 2
    assert first.wait("other") == 0
    assert 0 < second.wait("me") <= 1000


def test_an_allowance_fills_up_again(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("server.ratelimit.time.monotonic", lambda: now[0])
    limiter = RateLimiter(tmp_path / "rates.sqlite", rate=10, burst=2)
    assert [limiter.wait("me") == 0 for _ in range(3)] == [True, True, False]
    now[0] += limiter.wait("me") + 1e-6
    assert limiter.wait("me") == 0
    assert limiter.wait("me") > 0


def test_a_request_that_takes_too_long_is_given_up(make_client, monkeypatch):
    import threading

    client = make_client(request_timeout=0.2)
    release = threading.Event()
    monkeypatch.setattr(client.app.state.server.service, "index", lambda: release.wait(20) and None)
    answer = client.get("/v1/index")
    assert answer.status_code == 503
    assert_problem(answer)
    assert answer.headers["retry-after"]
    release.set()
    assert client.get("/v1/tree").status_code == 200


def test_more_than_it_can_queue_is_refused_and_not_kept_waiting(make_client, monkeypatch):
    import threading
    from concurrent.futures import ThreadPoolExecutor

    client = make_client(threads=1, max_pending=1, request_timeout=10)
    assert client.get("/readyz").status_code == 200  # the warming-up is over
    release = threading.Event()
    service = client.app.state.server.service
    index = service.index
    monkeypatch.setattr(service, "index", lambda: release.wait(20) and index())
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(client.get, "/v1/index") for _ in range(8)]
        refused = [answer for answer in answers if _within(answer, 5)]
        release.set()
        statuses = sorted(answer.result().status_code for answer in answers)
    assert statuses == [200] * 2 + [503] * 6
    assert len(refused) == 6
    assert client.get("/v1/tree").status_code == 200


def _within(answer, seconds):
    import concurrent.futures

    try:
        return answer.result(seconds / 8)
    except concurrent.futures.TimeoutError:
        return None


def test_every_setting_is_documented(cli):
    from live import REPOSITORY

    page = (REPOSITORY / "docs" / "http-api.md").read_text(encoding="utf-8")
    shown = cli("serve", "--help").out
    for name, field in Settings.model_fields.items():
        assert field.description
        if name in ("index", "run_dir"):
            continue
        option = f"--{name.replace('_', '-')}"
        assert option in shown
        assert f"`{option}`" in page, f"docs/http-api.md does not name {option}"


def test_settings_survive_the_way_to_a_worker(monkeypatch, tmp_path):
    settings = Settings(
        max_k=7, allowed_hosts="a.example,b.example", rate_per_second=1.5, state_dir=tmp_path
    )
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    assert Settings() == settings
