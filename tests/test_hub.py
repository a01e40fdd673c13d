"""Where a model's name leads, and what the error says when it leads nowhere."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import huggingface_hub
import huggingface_hub.constants
import pytest
from huggingface_hub.errors import RepositoryNotFoundError
from transformers import AutoConfig, AutoTokenizer

from minivllm import hub
from minivllm.errors import ModelNotFoundError
from minivllm.hub import known_models, resolve_model


@pytest.fixture
def no_hub(monkeypatch):
    """The hub is offline and its local cache is asked for nothing."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def make_checkpoint(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def test_a_folder_with_a_config_is_taken_as_it_is(tmp_path):
    folder = make_checkpoint(tmp_path / "my-model")
    assert resolve_model(folder) == folder
    assert resolve_model(str(folder)) == folder


def test_a_local_folder_goes_before_a_known_name(tmp_path, monkeypatch):
    folder = make_checkpoint(tmp_path / "smollm2")
    monkeypatch.chdir(tmp_path)
    assert resolve_model("smollm2") == folder


def test_a_folder_without_a_config_does_not_hide_a_known_name(tmp_path, monkeypatch):
    (tmp_path / "dummy-qwen3").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve_model("dummy-qwen3") == Path(hub.__file__).parent / "assets" / "dummy-qwen3"


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "~no-such-user/x", "a/b/c"])
def test_a_path_that_does_not_exist_is_called_a_missing_folder(name):
    with pytest.raises(ModelNotFoundError, match="does not exist"):
        resolve_model(name)


def test_a_path_object_never_asks_the_hub(tmp_path):
    with pytest.raises(ModelNotFoundError, match="does not exist"):
        resolve_model(Path("gpt2"))


def test_a_folder_that_holds_no_checkpoint_is_named(tmp_path):
    with pytest.raises(ModelNotFoundError, match=r"has no config\.json"):
        resolve_model(tmp_path)


def test_a_file_is_refused_with_what_to_give_instead(tmp_path):
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ModelNotFoundError, match="is a file; give the folder"):
        resolve_model(tmp_path / "model.safetensors")


@pytest.mark.parametrize("name", ["someone/some-model", "smolm2"])
def test_offline_an_unknown_name_lists_the_known_ones_and_the_remedy(name, no_hub):
    with pytest.raises(ModelNotFoundError) as error:
        resolve_model(name)
    message = str(error.value)
    for name_without_hub in known_models():
        assert name_without_hub in message
    assert f"minivllm fetch {name}" in message
    assert "HF_HUB_OFFLINE" in message


def test_a_name_that_no_repository_can_have_is_an_unknown_model():
    with pytest.raises(ModelNotFoundError, match="no such repository"):
        resolve_model("not a name")


def test_a_silent_hub_is_given_up_after_seconds():
    # A server that accepts connections and never answers, in place of the hub.
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = (
            "from minivllm import hub\n"
            "hub._HUB_TIMEOUT = 0.5\n"
            "try: hub.resolve_model('someone/some-model')\n"
            "except hub.ModelNotFoundError as error: print(error)"
        )
        environment = {
            "HF_ENDPOINT": f"http://127.0.0.1:{server.getsockname()[1]}",
            "HF_HOME": "/nonexistent",
            "PATH": "",
        }
        start = time.monotonic()
        run = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert "can't be reached" in run.stdout
    assert time.monotonic() - start < 20


def test_an_online_hub_is_asked_for_safetensors_and_text_files_only(monkeypatch, tmp_path):
    asked = {}

    def snapshot_download(repo_id, **options):
        asked.update(options, repo_id=repo_id)
        return str(make_checkpoint(tmp_path / "snapshot"))

    monkeypatch.setattr(hub, "_newest_revision", lambda repo_id: "abc123")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert resolve_model("someone/some-model") == tmp_path / "snapshot"
    assert (asked["repo_id"], asked["revision"]) == ("someone/some-model", "abc123")
    assert not asked["local_files_only"]
    wanted, unwanted = asked["allow_patterns"], asked["ignore_patterns"]
    files = [
        "config.json",
        "model-00001-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer.json",
        "chat_template.jinja",
        "pytorch_model.bin",
        "modeling_custom.py",
        "consolidated.safetensors",
        "onnx/config.json",
        "model.pth",
        "model.gguf",
    ]
    kept = huggingface_hub.utils.filter_repo_objects(
        files, allow_patterns=wanted, ignore_patterns=unwanted
    )
    assert list(kept) == files[:5]


def test_an_unreachable_hub_falls_back_to_its_local_cache(monkeypatch, tmp_path):
    def snapshot_download(repo_id, *, local_files_only, **_):
        assert local_files_only
        return str(make_checkpoint(tmp_path / "snapshot"))

    monkeypatch.setattr(hub, "_newest_revision", lambda repo_id: None)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert resolve_model("someone/some-model") == tmp_path / "snapshot"


def test_a_repository_that_does_not_exist_is_said_to_not_exist(monkeypatch):
    class NotThere(RepositoryNotFoundError):
        def __init__(self):
            Exception.__init__(self, "404")

    def model_info(self, repo_id, timeout):
        raise NotThere

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
    with pytest.raises(ModelNotFoundError, match="no such repository"):
        resolve_model("someone/some-model")


def test_importing_the_hub_loads_no_torch():
    code = "import sys, minivllm.hub; print('torch' in sys.modules, 'gguf' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]


def test_the_dummy_model_is_a_qwen3_with_grouped_heads_of_an_explicit_size():
    config = AutoConfig.from_pretrained(resolve_model("dummy-qwen3"))
    assert config.architectures == ["Qwen3ForCausalLM"]
    assert config.num_attention_heads >= 2 * config.num_key_value_heads
    assert config.head_dim != config.hidden_size // config.num_attention_heads


def test_the_dummy_tokenizer_turns_any_text_into_its_bytes_and_back():
    folder = resolve_model("dummy-qwen3")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = "Größe 42\n\t\x00😀 <b>"
    ids = tokenizer(text).input_ids
    assert ids == list(text.encode())
    assert tokenizer.decode(ids) == text
    assert len(tokenizer) == AutoConfig.from_pretrained(folder).vocab_size == 259


def test_the_dummy_tokenizer_wraps_a_chat():
    tokenizer = AutoTokenizer.from_pretrained(resolve_model("dummy-qwen3"))
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    ids = tokenizer(text).input_ids
    assert (ids[0], tokenizer.eos_token_id) == (257, 258)


def test_the_shipped_tokenizer_is_what_the_tool_writes(tmp_path):
    root = Path(__file__).parents[1]
    tool = root / "tools" / "make_byte_tokenizer.py"
    subprocess.run([sys.executable, tool, tmp_path], check=True)
    for path in tmp_path.iterdir():
        shipped = root / "minivllm" / "assets" / "dummy-qwen3" / path.name
        assert shipped.read_text() == path.read_text(), path.name
