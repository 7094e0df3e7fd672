"""What an answer to a search tells a reader who asks on."""

import pytest

from kb.search.models import Filters, SearchRequest
from server.mcp.results import search_text
from server.service import KnowledgeService
from server.settings import Settings


@pytest.fixture(scope="module")
def service(shipped_index, tmp_path_factory):
    place = tmp_path_factory.mktemp("found")
    return KnowledgeService(
        Settings(index=shipped_index, state_dir=place, tokens=place / "tokens.json")
    )


@pytest.mark.parametrize("language", ["triton", "cuda"])
def test_a_kernel_is_named_by_its_slug_whatever_its_file_is_called(service, language):
    filters = Filters(kinds=["kernel"], languages=[language])
    found = service.explained_search(
        SearchRequest(query="rmsnorm of rows kernel", k=10, filters=filters)
    )
    assert found.response.results
    assert found.kernels.keys() == {each.id for each in found.response.results}
    text = search_text(found)
    for slug in found.kernels.values():
        assert service.kernel(slug).language == language
        assert f"Part of the kernel {slug}: get_kernel" in text
