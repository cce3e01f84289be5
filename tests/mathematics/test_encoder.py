"""Encoders from a directory against the reference implementation, and every bad directory."""

import json

import pytest
import safetensors.torch
import torch

import attnverify as av
import modelzoo
from attnverify.mathematics import encoder as encoders
from attnverify.mathematics.encoder import Encoder
from attnverify.support.errors import InputError

TEXT = "The path decomposition splits a transformer into short and long paths."
CONFIGS = {
    "small": {},
    "one head": {"num_attention_heads": 1, "num_hidden_layers": 1},
    "relu": {"hidden_act": "relu", "layer_norm_eps": 1e-5, "type_vocab_size": 1},
}


@pytest.fixture
def directory(tmp_path):
    modelzoo.saved_bert(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def minilm():
    return Encoder.bundled()


def bert_states(model, encoder, text, dtype):
    ids = torch.tensor([encoder.tokenizer.encode(text).ids])
    with torch.no_grad():
        states = model.to(dtype)(ids, output_hidden_states=True).hidden_states
    return torch.stack(states)[:, 0]


def check_against(model, encoder, text):
    """Embeddings and the output of every layer, relative to the largest entry of a layer.

    In float32 the two may differ by 1e-5: about 1,000 roundings of 2^-24 each would be 6e-5 if
    they all added up, and they average out. A rounding error is proportional to the unit roundoff
    to first order, 2^-53 in float64 against 2^-24: what passes at 1e-5 in float32 must pass at
    2^-29 * 1e-5 = 1.9e-14 in float64, times 8 because single errors do not scale exactly.
    """
    X = encoder.embed(text)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 8 * 2.0**-29 * 1e-5)):
        expected = bert_states(model, encoder, text, dtype)
        network = encoder.network.to(dtype)
        found = network.hidden(X.to(dtype))
        error = (found - expected).abs().amax((1, 2)) / expected.abs().amax((1, 2))
        assert (error <= tolerance).all(), (dtype, error)
    assert encoder.network.weights["W_Q"].dtype == torch.float64


@pytest.mark.parametrize("name", CONFIGS)
def test_agrees_with_bert_of_random_weights(tmp_path, name):
    model = modelzoo.saved_bert(tmp_path, **CONFIGS[name])
    check_against(model, Encoder.from_directory(tmp_path), "The paths are short .")


def test_agrees_with_bert_on_minilm(minilm):
    from transformers import BertConfig, BertModel

    config = BertConfig(**json.loads((minilm.directory / "config.json").read_text()))
    model = BertModel(config, add_pooling_layer=False).eval()
    weights = safetensors.torch.load_file(minilm.directory / "model.safetensors")
    missing, _ = model.load_state_dict(weights, strict=False)
    assert missing == []
    encoder = Encoder.from_directory(minilm.directory)  # not the shared one: its dtype changes
    check_against(model, encoder, TEXT)


def test_tokens_of_minilm(minilm):
    tokens = minilm.tokens(TEXT)
    assert tokens[:4] == ["[CLS]", "the", "path", "decomposition"] and tokens[-1] == "[SEP]"
    assert minilm.embed(TEXT).shape == (len(tokens), 384)
    assert minilm.embed(TEXT).dtype == torch.float64
    assert (minilm.network.depth, minilm.network.heads) == (6, 12)
    assert minilm.tokens("word " * 300)[-1] == "[SEP]"  # its own limit of 128 is lifted
    assert minilm.tokens("") == ["[CLS]", "[SEP]"]


def test_all_paths_of_minilm(minilm):
    """13^6 = 4,826,809 paths: their sums by length and the bias are the attention stack.

    The bar is 1e-9 relative. Expected is far less: a chain has 6 (384 + 15 + 384 + 3) < 5,000
    roundings of 2^-53, 5.5e-13 even if all had one sign and nothing canceled.
    """
    stack, X = minilm.attention_stack(), minilm.embed(TEXT)
    assert (1 + stack.heads) ** stack.depth == 4_826_809
    sums, output = av.paths.by_length(stack, X), stack(X)
    difference = sums.sum(0) + av.paths.bias(stack, X) - output
    assert difference.abs().max() <= 1e-9 * output.abs().max()
    assert difference.norm() <= 1e-9 * output.norm()
    without = sums.sum(0) + av.paths.bias(stack, X) - sums[3] - output  # one length missing
    assert without.norm() > 1e-3 * output.norm()


def test_attention_stack_without_skip(minilm):
    stack = minilm.attention_stack(skip=False)
    assert not stack.skip and stack.mlp is None and stack.norm is None
    assert stack.weights["W_V"].data_ptr() == minilm.network.weights["W_V"].data_ptr()


def test_tokenizer_file_and_vocabulary_agree(minilm, tmp_path):
    """vocab.txt alone gives the tokens of tokenizer.json."""
    for name in ("config.json", "tokenizer_config.json", "vocab.txt", "model.safetensors"):
        (tmp_path / name).symlink_to(minilm.directory / name)
    other = Encoder.from_directory(tmp_path)
    assert other.tokens(TEXT) == minilm.tokens(TEXT)
    assert torch.equal(other.embed(TEXT), minilm.embed(TEXT))


def test_names_of_older_files(directory):
    """A prefix "bert." and layer norms with gamma and beta, as in the first released weights."""
    before = Encoder.from_directory(directory).embed("the path")
    file = directory / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    renamed = {
        "bert."
        + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): value
        for name, value in tensors.items()
    }
    safetensors.torch.save_file(renamed, file)
    assert torch.equal(Encoder.from_directory(directory).embed("the path"), before)


def test_hash(directory):
    file = directory / "model.safetensors"
    good = encoders.hashlib.sha256(file.read_bytes()).hexdigest()
    Encoder.from_directory(directory, sha256=good.upper())
    with pytest.raises(InputError, match=rf"^sha256: got {good} for {file}, expected {'0' * 64}"):
        Encoder.from_directory(directory, sha256="0" * 64)


def test_bundled_weights_are_checked(minilm, monkeypatch):
    monkeypatch.setattr(encoders, "BUNDLED_SHA256", "1" * 64)
    with pytest.raises(InputError, match="^sha256: got 53aa51172d14"):
        Encoder.bundled()


def test_bundled_package_missing(monkeypatch):
    monkeypatch.setattr(encoders, "BUNDLED_PACKAGE", "no_such_package_anywhere")
    message = "^encoder: got no package no_such_package_anywhere, expected it"
    with pytest.raises(InputError, match=message):
        Encoder.bundled()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", "^path: got no file .*config.json, expected a directory with config.json"),
        ("vocab.txt", "^path: got no tokenizer.json or vocab.txt in"),
        ("model.safetensors", "^path: got no file .*model.safetensors"),
    ],
)
def test_a_file_is_missing(directory, name, message):
    (directory / name).unlink()
    with pytest.raises(InputError, match=message):
        Encoder.from_directory(directory)


def test_no_directory(tmp_path):
    with pytest.raises(InputError, match="^path: got .*nowhere, which is no directory"):
        Encoder.from_directory(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, "model_type 'roberta' in .*config.json, expected model_type"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type 'relative_key' in"),
        ({"is_decoder": True}, "is_decoder True in"),
        ({"hidden_act": "gelu_new"}, "hidden_act 'gelu_new' in .*expected one of"),
        (
            {"num_attention_heads": 5},
            "hidden_size 12 with 5 heads in .*expected a hidden_size that",
        ),
        (
            {"num_hidden_layers": 3},
            "2 layers in .*model.safetensors, expected the 3 layers of config",
        ),
        ({"hidden_size": "12"}, "hidden_size '12' in .*expected a positive whole number"),
        ({"hidden_size": 24}, "of shape .* in .*model.safetensors, expected shape"),
        ({"layer_norm_eps": -1.0}, "layer_norm_eps -1.0 in"),
    ],
)
def test_another_architecture(directory, changes, message):
    file = directory / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(InputError, match=f"^path: got .*{message}"):
        Encoder.from_directory(directory)


def spoil(directory, kind):
    """Damage one file of a good directory."""
    weights, config = directory / "model.safetensors", directory / "config.json"
    if kind == "truncated":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif kind == "pickle":
        torch.save({"a": torch.zeros(3)}, weights)
    elif kind == "config cut":
        config.write_text(config.read_text()[:-20])
    elif kind == "config list":
        config.write_text("[1]")
    elif kind == "tokenizer":
        (directory / "tokenizer.json").write_text('{"version": "1.0"}')
    elif kind == "vocabulary":
        (directory / "vocab.txt").write_text("the\npath\n")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("truncated", "^path: got .*model.safetensors, which is no whole safetensors file"),
        ("pickle", "^path: got .*model.safetensors, which is no whole safetensors file"),
        ("config cut", "^path: got .*config.json, which is no JSON"),
        ("config list", "^path: got list in .*config.json, expected a JSON object"),
        ("tokenizer", "^path: got .*tokenizer.json, which does not parse"),
        ("vocabulary", "^path: got .*vocab.txt, which does not parse"),
    ],
)
def test_spoiled_files(directory, kind, message):
    spoil(directory, kind)
    with pytest.raises(InputError, match=message):
        Encoder.from_directory(directory)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.long(), "of dtype torch.int64 in .*expected a floating dtype"),
        (
            lambda v: v * torch.nan,
            ".*model.safetensors: embeddings.*got 12 NaN or infinite entries",
        ),
        (lambda v: None, ".*model.safetensors without embeddings.LayerNorm.bias, expected BERT's"),
    ],
)
def test_bad_tensors(directory, change, message):
    file = directory / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    tensors["embeddings.LayerNorm.bias"] = change(tensors["embeddings.LayerNorm.bias"])
    safetensors.torch.save_file({k: v for k, v in tensors.items() if v is not None}, file)
    with pytest.raises(InputError, match=f"^path: .*{message}"):
        Encoder.from_directory(directory)


def test_text_is_too_long(directory):
    encoder = Encoder.from_directory(directory)
    assert encoder.embed("the " * 7).shape == (9, 12)
    with pytest.raises(InputError, match="^text: got 10 tokens, expected 1 to 9 tokens"):
        encoder.embed("the " * 8)


def test_tokenizer_of_another_model(directory):
    (directory / "vocab.txt").write_text("\n".join([*modelzoo.WORDS, "extra"]) + "\n")
    encoder = Encoder.from_directory(directory)
    with pytest.raises(InputError, match="^text: got token id 11, expected ids below 11"):
        encoder.embed("extra")
