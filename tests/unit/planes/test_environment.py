"""What a child gets of our environment."""

from ozzie_server_ext.planes.child import child_environment, host_environment


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


def test_a_command_of_the_users_own_sees_who_they_are_and_no_key() -> None:
    ours = {"PATH": "/bin", "USER": "ana", "SSH_AUTH_SOCK": "/s", "XDG_CONFIG_HOME": "/c", "TERM": "xterm"}
    keys = {"OPENAI_API_KEY": "k", "JUPYTER_TOKEN": "t", "GITHUB_TOKEN": "g", "KUBECONFIG": "/k", "BASH_ENV": "/b"}

    assert host_environment(ours | keys) == ours | {"TERM": "dumb"}
