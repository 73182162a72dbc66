"""What a child gets of our environment."""

from ozzie_server_ext.planes.environment import child_environment


def test_only_what_is_listed_passes_and_no_key_of_a_provider() -> None:
    ours = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "HTTPS_PROXY": "http://proxy",
        "OPENAI_API_KEY": "sk-1",
        "JUPYTER_TOKEN": "t",
        "AWS_SECRET_ACCESS_KEY": "s",
    }
    assert child_environment(ours) == {"PATH": "/bin", "LC_ALL": "C", "HTTPS_PROXY": "http://proxy"}
