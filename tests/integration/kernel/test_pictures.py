"""Cells that show pictures of the project to a model, through the real worker."""

import json
from collections.abc import Iterator

import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.pictures import png, seen_in_parts
from tests.rig import GatewayHome, Kernel, new_home, start_kernel

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def picture_home(tmp_path_factory: pytest.TempPathFactory, fake_openai_server: FakeOpenAI) -> Iterator[GatewayHome]:
    home = new_home(tmp_path_factory.mktemp("pictures"))
    provider = {
        "driver": "openai",
        "model": "eyes",
        "base_url": f"{fake_openai_server.url}/v1",
        "auth": {"type": "none"},
    }
    blind = {**provider, "capabilities": {"images": False}}
    home.configure({"models": {"default": "eyes", "providers": {"eyes": provider, "blind": blind}}})
    (home.project / "plot.png").write_bytes(png())
    yield home
    home.stop_gateways()


@pytest.fixture(scope="module")
def kernel(picture_home: GatewayHome) -> Iterator[Kernel]:
    kernel = start_kernel(picture_home)
    yield kernel
    kernel.stop()


def test_a_picture_that_a_cell_names_is_shown_now_and_in_the_turns_after_it(
    kernel: Kernel, fake_openai: FakeOpenAI, picture_home: GatewayHome
) -> None:
    first = kernel.run("What is in @plot.png?")
    (picture_home.project / "plot.png").write_bytes(png(40))
    second = kernel.run("And what else?")

    seen = f"Seen: {len(png())} bytes"
    assert (seen in first.markdown, seen in second.markdown) == (True, True), "as it was when it was named"
    assert "<sub>With plot.png.</sub>" in first.markdown
    assert "With plot.png" not in second.markdown
    assert any("With plot.png" in html for html in first.live)
    assert first.turn["pictures"] == ["plot.png"]
    assert [seen_in_parts(request.body["messages"]) for request in fake_openai.requests] == [[png()], [png()]]


def test_a_file_that_is_no_picture_costs_nothing_and_says_what_to_do(
    kernel: Kernel, fake_openai: FakeOpenAI, picture_home: GatewayHome
) -> None:
    (picture_home.project / "text.png").write_text("no picture at all")

    output = kernel.run("What is in @text.png?")

    assert (output.status, fake_openai.requests) == ("error", [])
    assert "text.png is not a PNG, JPEG or WebP picture" in output.markdown.replace("\\", "")
    assert "write the name without the @" in output.markdown
    assert "Traceback" not in json.dumps(output.bundles)


def test_a_name_at_which_there_is_nothing_is_told_to_all(kernel: Kernel, fake_openai: FakeOpenAI) -> None:
    output = kernel.run("What is in @plott.png?")

    assert output.status == "ok"
    assert "<sub>There is no plott.png.</sub>" in output.markdown
    assert fake_openai.requests[0].body["messages"][-1]["content"].endswith("[The picture plott.png does not exist.]")


def test_a_model_that_can_not_see_is_not_asked(kernel: Kernel, fake_openai: FakeOpenAI) -> None:
    kernel.run("%model blind")
    output = kernel.run("What is in @plot.png?")
    kernel.run("%model eyes")

    assert (output.status, fake_openai.requests) == ("error", [])
    assert "can't be shown pictures" in output.markdown.replace("\\", "")
