"""Several servers on one folder: one machine publishes, and all answer from the new generation."""

from live import serving, serving_here
from test_reload import publish


def test_two_servers_on_one_folder_answer_from_what_one_of_them_sees_published(filled, tmp_path):
    with serving(filled) as one, serving_here(filled, tmp_path) as other:
        before = {each.get("/readyz").json()["generation"] for each in (one, other)}
        assert len(before) == 1
        name = publish(filled, tmp_path / "zebra", 7)
        assert {name} != before
        for server in (one, other):
            assert server.get("/readyz").json() == {
                "status": "ready",
                "generation": name,
                "problem": None,
            }
            answer = server.search("zebra crossing stamped", 1)
            assert answer["index"]["generation"] == name
            assert "stamp7" in answer["results"][0]["text"]
