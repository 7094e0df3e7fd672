"""Limits on tokens and money hold before a request is sent; unknown prices are said."""

import json
import threading

import pytest
from scripted_endpoint import Answer, completion, error, says

from agent.endpoint.errors import BudgetSpentError, EndpointError
from agent.proposers.llm.accounting import Ledger, Price, find_price, parse_price, read_prices
from agent.proposers.llm.conversation import Conversation
from agent.proposers.llm.models import Code
from agent.proposers.llm.record import read_exchanges
from kb.errors import InvalidInputError

GOOD = {"note": "n", "code": "x = 1\n"}
PRICE = Price(input=2.0, output=10.0)


def ask(gateway, name="c", prompt="prompt", reply=1000):
    return Conversation(gateway, name, "system", max_reply_tokens=reply).ask(Code, prompt)


def test_tokens_and_money_are_those_that_the_endpoint_counts(live, endpoint, tmp_path):
    gateway = live(endpoint(says(GOOD, usage=(1_000_000, 100_000))), price=PRICE)
    ask(gateway)
    spent = gateway.spent
    assert (spent.tokens_in, spent.tokens_out, spent.money) == (1_000_000, 100_000, 3.0)
    (exchange,) = read_exchanges(tmp_path / "run")
    assert (exchange.tokens_in, exchange.money, exchange.estimated) == (1_000_000, 3.0, False)
    assert "3.0000 at the given prices" in gateway.summary()


def test_without_a_price_tokens_alone_are_counted_and_that_is_said(live, endpoint):
    gateway = live(endpoint(says(GOOD)))
    ask(gateway)
    assert gateway.spent.money == 0.0
    assert "price of this model is not known" in gateway.summary()


def test_an_endpoint_that_does_not_count_is_assumed_from_the_lengths(live, endpoint, tmp_path):
    gateway = live(endpoint(says(GOOD, usage=None)))
    ask(gateway, prompt="word " * 3000)
    assert 3000 <= gateway.spent.tokens_in <= 7500
    assert gateway.spent.tokens_out >= len(json.dumps(GOOD)) // 3
    assert read_exchanges(tmp_path / "run")[0].estimated
    assert "without a count" in gateway.summary()


def test_a_limit_on_tokens_is_checked_before_a_request_is_sent(live, endpoint, tmp_path):
    server = endpoint(says(GOOD, usage=(800, 900)), default=says(GOOD))
    gateway = live(server, max_tokens=4000)
    ask(gateway, "a")
    ask(gateway, "b", reply=500)
    with pytest.raises(BudgetSpentError, match="limit of 4,000 tokens") as raised:
        ask(gateway, "c", reply=2250)
    assert "\n" not in str(raised.value)
    assert len(server.requests) == 2
    assert read_exchanges(tmp_path / "run")[-1].failure.kind == "BudgetSpentError"


def test_a_limit_on_money_is_checked_before_a_request_is_sent(live, endpoint):
    server = endpoint(default=says(GOOD, usage=(100, 90_000)))
    gateway = live(server, price=PRICE, max_money=1.0)
    ask(gateway, "a", reply=90_000)
    with pytest.raises(BudgetSpentError, match="limit of 1 on money"):
        ask(gateway, "b", reply=20_000)
    ask(gateway, "c", reply=5000)
    assert len(server.requests) == 2


def test_what_earlier_processes_spent_counts(live, endpoint, tmp_path):
    server = endpoint(default=says(GOOD, usage=(1000, 1000)))
    ask(live(server, max_tokens=4000), "a")
    again = live(server, max_tokens=4000)
    assert again.spent.tokens_in == 0
    with pytest.raises(BudgetSpentError):
        ask(again, "b", reply=2250)


def test_a_request_waits_for_those_that_may_take_what_is_left(live, endpoint):
    free = threading.Event()
    held = Answer(completion(json.dumps(GOOD)), hold=free)
    server = endpoint(held, default=says(GOOD))
    gateway = live(server, max_tokens=5000)
    threads = [
        threading.Thread(target=ask, args=(gateway, name), kwargs={"reply": 3000})
        for name in ("a", "b")
    ]
    for each in threads:
        each.start()
    threads[0].join(0.5)
    assert len(server.requests) == 1
    free.set()
    for each in threads:
        each.join()
    assert len(server.requests) == 2


def test_a_request_that_failed_gives_back_what_was_set_aside(live, endpoint):
    server = endpoint(error(500, "x"), default=says(GOOD))
    gateway = live(server, max_tokens=4000, max_retries=0)
    with pytest.raises(EndpointError):
        ask(gateway, "a", reply=3000)
    ask(gateway, "b", reply=3000)


def test_a_limit_on_money_needs_a_price():
    with pytest.raises(InvalidInputError, match="needs the model's price"):
        Ledger(max_money=5.0)


def test_prices_come_from_a_file_or_an_option(tmp_path):
    file = tmp_path / "prices.yaml"
    file.write_text("currency: EUR\nmodels:\n  m/1: {input: 1.25, output: 10}\n")
    assert read_prices(file).models["m/1"].of(1_000_000, 100_000) == 2.25
    assert read_prices(file).currency == "EUR"
    assert parse_price("1.25, 10") == Price(input=1.25, output=10)
    assert find_price("1.25,10", "m/1") == find_price(str(file), "m/1")
    with pytest.raises(InvalidInputError, match=r"no price for 'm/2', only: m/1$"):
        find_price(str(file), "m/2")


@pytest.mark.parametrize("text", ["1", "1,2,3", "a,b", "-1,2", "nan,1", "inf,1"])
def test_a_price_that_is_none_is_refused(text):
    with pytest.raises(InvalidInputError, match="is not a price"):
        parse_price(text)


@pytest.mark.parametrize("text", ["[", "models: {m: {input: -1, output: 1}}", "models: 3", "\x00"])
def test_a_price_list_that_is_none_is_refused(text, tmp_path):
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInputError, match="is not a price list") as raised:
        read_prices(file)
    assert "\n" not in str(raised.value)
    with pytest.raises(InvalidInputError, match="cannot read"):
        read_prices(tmp_path / "none.yaml")
