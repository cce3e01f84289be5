"""Models of every family as traces: proved by reconstruction, and refused where they are wrong."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import modelzoo
from attninspect import architecture as named
from attninspect import families, reconstruction
from attninspect import trace as trace_module
from attninspect.forward import Subject, trace
from attninspect.inputs import Inputs
from attninspect.inspect_model import inspect
from attninspect.reconstruction import ReconstructionError, Streams, compared, reconstruct
from attninspect.record import Call, Record
from attninspect.trace import Block, Branch, Step
from attnverify.mathematics import maps
from attnverify.support.errors import InputError

DTYPES = (torch.float64, torch.float32)


@pytest.mark.parametrize("case", modelzoo.CASES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_all_paths_are_the_model(case, dtype):
    """Every step within its bound; the end is the model's own output, to the last bit."""
    model, ids = modelzoo.model(case), modelzoo.inputs(case)
    found = trace(model, ids, dtype)
    name = "pixel_values" if case == "vit" else "input_ids"
    expected = modelzoo.reference(model, {name: ids}, dtype).double()
    if case == "falcon, alibi":  # adds in another order: the margin of test_padding
        off, unit = (found.output - expected).abs().max(), torch.finfo(dtype).eps / 2
        assert off <= 4 * 2 * 2 * 120 * unit * expected.abs().max()
    else:
        assert torch.equal(found.output, expected)
    streams = reconstruct(found)
    assert max(check.ratio for check in streams.checks) <= 1
    assert len(streams.lengths) == len(found.layers) + 1
    whole = streams.lengths.sum(0) + streams.bias + streams.rest
    # The streams are at most 60 times the output here, and four are added up.
    assert (whole - found.output).abs().max() <= 60 * 4 * 2.0**-53 * found.output.abs().max()
    # A chain has some 2 (12 + 7 + 12 + 12 + 17) = 120 roundings a layer, which average out; in
    # float64 the norms of Llama and its kin still compute in float32.
    single = dtype == torch.float32 or modelzoo.single_norms(model)
    unit = 2.0**-24 if single else 2.0**-53
    assert streams.rest.abs().max() <= 120 * unit * found.output.abs().max()


@pytest.mark.parametrize("case", modelzoo.CASES)
def test_every_map_has_its_transpose(case):
    """<M y, g> = <y, M^T g>, for streams of any number, at every step of every family."""
    found = trace(modelzoo.model(case), modelzoo.inputs(case, batch=2))
    generator = torch.Generator().manual_seed(0)
    for layer in found.layers:
        for block in layer.blocks:
            for branch in block.branches:
                y = torch.randn(3, *found.input.shape, generator=generator, dtype=torch.float64)
                for step in branch.steps:
                    after = step.linear(y)
                    g = torch.randn(after.shape, generator=generator, dtype=torch.float64)
                    sides = (after * g).sum(), (y * step.transposed(g)).sum()
                    # at most 3 * 2 * 9 * 34 * 34 products, in another order
                    size = (after.abs() * g.abs()).sum() + (
                        y.abs() * step.transposed(g).abs()
                    ).sum()
                    assert abs(sides[0] - sides[1]) <= 2 * 3 * 2 * 9 * 34 * 34 * 2.0**-53 * size
                    y = after


@pytest.mark.parametrize("case", ["bert", "gpt_neox"])
def test_streams_are_the_same_however_many_are_carried_at_a_time(case, monkeypatch):
    """What is added up in another order differs by its rounding alone: four terms, here."""
    found = trace(modelzoo.model(case), modelzoo.inputs(case))
    seen = []
    for together in (1, 3, 9):
        monkeypatch.setattr(reconstruction, "TOGETHER", together)
        seen.append(reconstruct(found))
    largest = max(float(each.abs().max()) for each in seen[0].sums)
    for other in seen[1:]:
        assert [c.place for c in other.checks] == [c.place for c in seen[0].checks]
        # a product of 12 to 17 terms, 24 of them in a row, in another order at most
        off = (other.sums - seen[0].sums).abs().max()
        assert off <= 2 * 24 * 17 * 2.0**-53 * 60 * largest
        assert max(check.ratio for check in other.checks) <= 1


@pytest.mark.parametrize("case", ["gpt2", "llama", "bert", "phi", "bloom", "falcon, alibi", "t5"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_padding(case, side, dtype):
    """A padded batch: the tokens that are no padding are those of the text alone.

    Also in float64, where the mask of a row without keys overflows in the float32 softmax.
    """
    model, ids = modelzoo.model(case), modelzoo.inputs(case, batch=2)
    mask = torch.ones_like(ids)
    mask[1, slice(0, 3) if side == "left" else slice(4, 7)] = 0
    positions = (mask.cumsum(-1) - 1).clamp_min(0)
    given = {"input_ids": ids, "attention_mask": mask}
    if case not in ("bloom", "t5"):  # positions by the mask, or by distance
        given["position_ids"] = positions
    found = trace(model, given, dtype)
    reconstruct(found)
    assert torch.equal(found.valid, mask.bool())
    alone = trace(model, ids[1:, mask[1].bool()], dtype)
    # As above: some 120 roundings a layer, twice, of values up to 4 times the largest output.
    off = (found.output[1][mask[1].bool()] - alone.output[0]).abs().max()
    assert off <= 4 * 2 * 2 * 120 * 2.0**-24 * alone.output.abs().max()


LEARNED = {"gpt2": True, "bert": True, "albert": True, "opt": False, "roberta": False}


@pytest.mark.parametrize("case", [*LEARNED, "llama", "bloom"])
def test_positions_that_count_the_padding_before_a_text_are_said(case):
    """Where they are learned, unless the model numbers them by the mask or by padding tokens."""
    model, ids = modelzoo.model(case), modelzoo.inputs(case, batch=1)
    ids[0, :3] = model.config.pad_token_id or 0
    left = torch.tensor([[0, 0, 0, 1, 1, 1, 1]])
    given, alone = {"input_ids": ids, "attention_mask": left}, trace(model, ids[:, 3:]).output
    off = (trace(model, given).output[:, 3:] - alone).abs().max() / alone.abs().max()
    assert bool(off > 1e-3) == LEARNED.get(case, False)
    said = [inspect(model, each, brief=True).notes for each in (given, ids)]
    if case != "bloom":  # which takes no positions
        places = {"position_ids": torch.arange(7)[None]}
        said.append(inspect(model, {**given, **places}, brief=True).notes)
    found = [any("count the padding" in note for note in notes) for notes in said]
    assert found == [LEARNED.get(case, False)] + [False] * (len(said) - 1)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_the_models_own(side):
    """The model's output at the text is that of the model itself, in which nothing was mended.

    Its softmax is float32, so float64 differs from float32 by roundings of float32: the margin of
    test_padding. A row of padding that sees itself must not change a row of the text.
    """
    model, ids = modelzoo.model("mistral"), modelzoo.inputs("mistral", batch=2)
    mask = torch.ones_like(ids)
    mask[1, slice(0, 3) if side == "left" else slice(4, 7)] = 0
    given = {"input_ids": ids, "attention_mask": mask}
    found = trace(model, given)
    reconstruct(found)
    expected = modelzoo.reference(model, given, torch.float32)
    off = (found.output - expected)[mask.bool()].abs().max()
    assert off <= 4 * 2 * 2 * 120 * 2.0**-24 * expected.abs().max()


def test_a_rotation_that_stretches_has_no_largest_text_and_no_memory():
    """Longer than max_position_embeddings; after a longer text a shorter one is as before."""
    scaled = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    heads = {"num_attention_heads": 3, "num_key_value_heads": 3}
    model = modelzoo.model("llama", rope_parameters=scaled, **heads)
    ids = torch.randint(3, 23, (1, 40), generator=torch.Generator().manual_seed(0))
    found = trace(model, ids)
    reconstruct(found)
    expected = modelzoo.reference(model, {"input_ids": ids}, torch.float64)
    off = (found.output - expected).abs().max()
    assert off <= 2 * 2 * 120 * 2.0**-24 * expected.abs().max()  # angles are float32
    subject, outputs = Subject.of(model), []
    for length in (20, 40, 20):
        given = Inputs.of(subject.model, subject.architecture, ids[:, :length])
        outputs.append(subject.follow(given, lambda layer: None)[-1].seen)
    assert torch.equal(outputs[0], outputs[2])
    plain = modelzoo.model("llama")
    with pytest.raises(InputError, match="^inputs: got 40 tokens, expected at most 16"):
        trace(plain, ids)


@pytest.mark.parametrize("norm_first", [False, True])
def test_tokens_before_texts(norm_first):
    """torch's default order of axes: the trace is that of the same weights in the other order."""
    first, second = (modelzoo.encoder(norm_first, batch_first=b) for b in (True, False))
    X = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1))
    padding = np.array([[False] * 5, [False] * 3 + [True] * 2])
    found = [
        trace(stack, {"src": given, "src_key_padding_mask": padding})
        for stack, given in ((first, X), (second, X.transpose(0, 1)))
    ]
    assert max(check.ratio for check in reconstruct(found[1]).checks) <= 1
    assert torch.equal(found[0].output, found[1].output)
    assert not second.layers[0].self_attn.batch_first  # the model itself is as it was
    alone = trace(second.layers[0], X[0])
    reconstruct(alone)


@pytest.mark.parametrize("inverse", [False, True])
def test_attention_of_gpt2_in_another_order(inverse):
    """reorder_and_upcast_attn scales before the product and in float32: the same function."""
    options = {"reorder_and_upcast_attn": True, "scale_attn_by_inverse_layer_idx": inverse}
    model, ids = modelzoo.model("gpt2", **options), modelzoo.inputs("gpt2")
    found = trace(model, ids)
    reconstruct(found)
    expected = modelzoo.reference(model, {"input_ids": ids}, torch.float32)
    off = (found.output - expected).abs().max()
    assert off <= 4 * 2 * 2 * 120 * 2.0**-24 * expected.abs().max()


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -0.5])
def test_attention_that_is_no_probability(value):
    P, module = torch.full((1, 1, 2, 2), 0.5), nn.Identity()
    P[0, 0, 1, 1] = value
    record = Record({id(module): Call(P, (P, P))})
    none = named.Linear(P[0, 0], None)
    body = named.Attention(module, none, none, none, none, heads=1, key_heads=1, scale=1.0)
    with pytest.raises(InputError, match="^model: got attention with NaN, negative or infinite en"):
        record.matrices(body)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_torch_encoder(norm_first, activation):
    stack = modelzoo.encoder(norm_first, activation=activation)
    X = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1))
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    found = trace(stack, {"src": X, "src_key_padding_mask": padding})
    assert max(check.ratio for check in reconstruct(found).checks) <= 1
    assert torch.equal(found.valid, ~padding)
    with torch.no_grad():
        expected = stack.double()(X.double(), src_key_padding_mask=padding)
    # The fast path that runs without hooks adds in another order: 120 roundings a layer, as above.
    off = (found.output - expected)[found.valid].abs().max()
    assert off <= 2 * 2 * 120 * 2.0**-53 * expected.abs().max()


def test_one_torch_layer():
    layer = modelzoo.encoder().layers[0]
    found = trace(layer, torch.randn(5, 12))
    assert len(found.layers) == 1 and found.final == []
    reconstruct(found)


@pytest.mark.parametrize("case", ["bert", "gpt2", "vit", "qwen3"])
def test_dropout_is_off(case):
    """Also in a model that is being trained, and drops a half of everything it can."""
    names = ("hidden_dropout_prob", "attention_probs_dropout_prob", "attn_pdrop", "resid_pdrop")
    model = modelzoo.model(case, **dict.fromkeys((*names, "attention_dropout"), 0.5))
    ids = modelzoo.inputs(case)
    expected = trace(model, ids).output
    assert any(isinstance(m, nn.Dropout) and m.p == 0.5 for m in model.modules()) or case == "qwen3"
    assert torch.equal(trace(model.train(), ids).output, expected) and model.training


@pytest.mark.parametrize("padding", [0, 3])
def test_positions_of_roberta_begin_behind_that_of_padding(padding):
    """Of 16 positions as many are left as stand behind it: all run, and one more is refused."""
    model, most = modelzoo.model("roberta", pad_token_id=padding), 16 - padding - 1
    assert trace(model, [5] * most).output.shape[1] == most
    with pytest.raises(
        InputError, match=f"^inputs: got {most + 1} tokens, expected at most {most}"
    ):
        trace(model, [5] * (most + 1))


def test_the_model_is_left_as_it_was():
    model = modelzoo.model("llama").train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    trace(model, [3, 4, 5])
    assert model.training and next(model.parameters()).dtype == torch.float32
    assert next(model.parameters()).requires_grad
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not any(part._forward_hooks for part in model.modules())


def test_the_head_of_a_language_model_is_left_out():
    import transformers

    name, options = modelzoo.CASES["gpt2"]
    config = getattr(transformers, name)(**options)
    model = modelzoo.shaken(transformers.AutoModelForCausalLM.from_config(config))
    assert trace(model, [3, 4]).output.shape == (1, 2, 15)


# ---------------------------------------------------------------- wrong adapters


def changed(architecture, change):
    """The architecture with every block changed."""
    own = architecture.blocks
    return named.Architecture(
        architecture.layers,
        lambda layer: [change(block) for block in own(layer)],
        architecture.final,
        architecture.positions,
        architecture.causal,
        projection=architecture.projection,
    )


def replaced(block, kind, **fields):
    """The block with fields of its attention or MLP replaced; values are made from the old."""
    branches = []
    for norm, body in block.branches:
        if isinstance(body, kind):
            new = {name: make(getattr(body, name)) for name, make in fields.items()}
            body = kind(**{**vars(body), **new})
        branches.append((norm, body))
    return named.Block(branches, block.total, block.after)


def without_bias(part):
    return named.Linear(part.weight, None, part.module, part.columns)


def other_groups(part):
    """Keys and values of the two groups of heads exchanged, in the weights alone."""
    half = part.weight.shape[1] // 2
    return named.Linear(part.weight.roll(half, 1), part.bias, part.module, part.columns)


def without_norm(block):
    return named.Block([(None, body) for _, body in block.branches], block.total, block.after)


def unnormalized_end(block):
    return named.Block(block.branches, block.total, ())


def centered(block):
    """Layer norm in place of RMS norm."""
    branches = [(named.Norm(n.module, n.epsilon, True, n.single), b) for n, b in block.branches]
    return named.Block(branches, block.total, block.after)


def other_epsilon(block):
    branches = [(named.Norm(n.module, 1.01 * n.epsilon), b) for n, b in block.branches]
    return named.Block(branches, block.total, block.after)


def serial(block):
    """The MLP left out of a sum of both."""
    return named.Block(block.branches[:1], block.total, block.after)


def turned(part):
    """The heads in another order."""
    return named.Linear(part.weight.roll(4, 1), part.bias, part.module, part.columns)


def halves(part):
    """Queries or keys with the two halves of a head exchanged, which rotation tells apart."""
    weight = part.weight.reshape(len(part.weight), -1, 2, 2).flip(2).flatten(1)
    return named.Linear(weight, part.bias, part.module, part.columns)


def off(part):
    return named.Linear((1 + 2.0**-40) * part.weight, part.bias, part.module, part.columns)


def slopes(bias):
    """The slopes of ALiBi off by a relative 2^-10, more than what rounding explains in float64."""
    return lambda call: (1 + 2.0**-10) * bias(call)


def heads_turned(bias):
    return lambda call: bias(call).roll(1, 1)


def one_dropped(sinks):
    """The second head's score is so low that its weight is none."""
    return sinks.index_fill(0, torch.tensor([1]), -100.0)


def uncut(held):
    """The gates of entries that are cut off, as if they were not."""

    def other(call):
        up = call.input[..., 1::2].double()
        gates = call.outputs[0].double() / (up.clamp(-0.5, 0.5) + 1)
        return gates, gates

    return other


def of_the_token_before(routed):
    """Its routing weights, with the experts of the token itself."""
    return lambda call: (routed(call)[0].roll(1, 0), routed(call)[1])


def experts_exchanged(routed):
    return lambda call: (routed(call)[0], routed(call)[1].flip(-1))


def experts(**fields):
    return lambda block: replaced(block, named.Experts, **fields)


def without_the_last(routed):
    """The shared expert, which no router chooses, left out."""
    return lambda call: tuple(part[:, :-1] for part in routed(call))


def off_by(part):
    return (1 + 2.0**-40) * part[0], part[1]


def attention(**fields):
    return lambda block: replaced(block, named.Attention, **fields)


def plain(norm):
    """Gemma's norm with weights w in place of 1 + w."""
    return norm and replace(norm, offset=0.0)


def plain_before(block):
    return replace(block, branches=[(plain(norm), body) for norm, body in block.branches])


def gate_for_up(up):
    """The half of Phi 3's fused map that its activation takes."""
    return named.linear(up.module, up.columns - len(up.columns))


WRONG = {
    "scale": ("gpt2", attention(scale=lambda s: 1.01 * s)),
    "query bias": ("bert", attention(query=without_bias)),
    "keys of another head": ("vit", attention(key=turned)),
    "queries and keys": ("distilbert", attention(query=without_bias, key=turned)),
    "no rotation": ("llama", attention(rotary=lambda _: False)),
    "halves": ("mistral", attention(query=halves, key=halves)),
    "no norm of heads": ("qwen3", attention(norms=lambda _: None)),
    "no layer norm of heads": ("phi, norms of heads", attention(norms=lambda _: None)),
    "norms of heads exchanged": ("phi, norms of heads", attention(norms=lambda n: n[::-1])),
    "output bias": ("gpt2", lambda b: replaced(b, named.Attention, output=without_bias)),
    "value bias": ("bert", lambda b: replaced(b, named.Attention, value=without_bias)),
    "MLP bias": ("phi", lambda b: replaced(b, named.MLP, down=without_bias)),
    "groups": ("llama", lambda b: replaced(b, named.Attention, value=other_groups)),
    "number of groups": (
        "llama",
        lambda b: replaced(b, named.Attention, key_heads=lambda n: 2 * n),
    ),
    "missing norm": ("gpt2", without_norm),
    "missing norm behind": ("bert", unnormalized_end),
    "wrong norm": ("llama", centered),
    "epsilon": ("gpt_neox", other_epsilon),
    "branch": ("gpt_neox", serial),
    "slopes of BLOOM": ("bloom", attention(bias=slopes)),
    "slopes of Falcon": ("falcon, alibi", attention(bias=slopes)),
    "slopes of another head": ("bloom", attention(bias=heads_turned)),
    "relative bias of another head": ("t5", attention(bias=heads_turned)),
    "scale of T5": ("t5", attention(scale=lambda s: 5**-0.5)),
    "centered norm of T5": ("t5, gated", centered),
    "routing weights of another token": ("mixtral", experts(routed=of_the_token_before)),
    "experts exchanged": ("mixtral", experts(routed=experts_exchanged)),
    "numbers of experts": ("mixtral", experts(up=lambda part: (part[0].roll(1, 0), part[1]))),
    # As below: 4 m + 18 is some 200 with the roundings m = 13 + 3 + 18 + 3 of the four maps.
    "experts by 2^-40": ("mixtral", experts(down=off_by)),
    "gates of a neighbor": ("mixtral", experts(held=lambda h: lambda c: (h(c)[0].roll(1), 0.0))),
    "one sink dropped": ("gpt_oss", attention(sinks=one_dropped)),
    "sinks of other heads": ("gpt_oss", attention(sinks=lambda s: s.roll(1))),
    "no sinks": ("gpt_oss", attention(sinks=lambda _: None)),
    "angles of a half": ("gpt_oss", attention(half_angles=lambda _: False)),
    "biases of experts": ("gpt_oss", experts(down=lambda part: (part[0], None))),
    "nothing cut off": ("gpt_oss, clamped", experts(held=uncut)),
    "no gates": ("afmoe, dense, biases", attention(gate=lambda _: None)),
    "what is in the gates": ("afmoe, dense, biases", attention(gate=turned)),
    "rotation everywhere": ("afmoe", attention(rotary=lambda _: True)),
    "no shared expert": ("afmoe", experts(routed=without_the_last, shared=lambda _: None)),
    "no bias by distance": ("falcon, alibi", attention(bias=lambda _: None)),
    "rotation and no bias": ("falcon", attention(rotary=lambda _: False)),
    "groups of a fused map": ("falcon, grouped", attention(value=other_groups)),
    "stream not normalized": ("bloom, stream normalized", unnormalized_end),
    "no cap": ("gemma2", attention(cap=lambda _: None)),
    "another cap": ("gemma2", attention(cap=lambda c: 1.01 * c)),
    "weights of a norm": ("gemma", plain_before),
    "weights of a norm behind": ("gemma2", attention(behind=plain)),
    "weights of norms of heads": ("gemma3", attention(norms=lambda n: tuple(map(plain, n)))),
    "no norm behind attention": ("olmo2", attention(behind=lambda _: None)),
    "no norm behind an MLP": ("gemma3", lambda b: replaced(b, named.MLP, behind=lambda _: None)),
    "norms head by head": (
        "olmo2, biases",
        attention(
            whole=lambda _: False,
            norms=lambda n: tuple(named.Norm(nn.Identity(), m.epsilon, False, True) for m in n),
        ),
    ),
    "gate and up": ("phi3", lambda b: replaced(b, named.MLP, up=gate_for_up)),
    "queries of a fused map": ("phi3", attention(query=turned)),
    # A weight that is off by a relative 2^-40. The bound is some (4 m + 18) 2^-53 of an entry whose
    # terms do not cancel, see below, with m = 17 roundings at most: 2^-46. One entry is enough.
    "values by 2^-40": ("gpt2", attention(value=off)),
    "output by 2^-40": ("gpt2", attention(output=off)),
    "up by 2^-40": ("gpt2", lambda b: replaced(b, named.MLP, up=off)),
    "down by 2^-40": ("gpt2", lambda b: replaced(b, named.MLP, down=off)),
}


def run(model, architecture, ids, dtype=torch.float64):
    """The streams of a model under an architecture that need not be its own."""
    subject = Subject.of(model, dtype)
    subject = Subject(subject.model, architecture(subject.model))
    given = Inputs.of(subject.model, subject.architecture, ids)
    found = []

    def each(layer):
        found[:] = found or [Streams.of(layer.input, given.valid(*layer.input.shape[:2]))]
        found[0].advance(layer)

    final = subject.follow(given, each)
    found[0].through(final, "end")
    return found[0]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_adapter_is_refused(name):
    case, change = WRONG[name]
    model, ids = modelzoo.model(case), modelzoo.inputs(case)
    family = families.FAMILIES[model.config.model_type]
    run(model, family, ids)
    said = "the adapter is not this model there: off by"
    if name == "number of groups":
        said = "^layer 1: the adapter does not fit this model"
    with pytest.raises(ReconstructionError, match=said):
        run(model, lambda m: changed(family(m), change), ids)


@pytest.mark.parametrize("scale", [-1.0, 0.0, torch.nan])
def test_a_scale_or_cap_that_is_not_positive_is_refused(scale):
    none = named.Linear(torch.eye(2), None)
    parts = nn.Identity(), none, none, none, none, 1, 1
    with pytest.raises(InputError, match="^scale: got .*, expected a number > 0"):
        named.Attention(*parts, scale)
    with pytest.raises(InputError, match="^cap: got .*, expected a number > 0"):
        named.Attention(*parts, 1.0, cap=scale)
    with pytest.raises(InputError, match="^epsilon: got -1e-05, expected a number >= 0"):
        named.Norm(nn.Identity(), -1e-5)


def test_signs_make_no_bound_smaller():
    """Of scales (past the check of an adapter) and of weights; a bound below 0 is refused."""
    heads = trace(modelzoo.model("bert"), modelzoo.inputs("bert")).layers[0].heads
    negated = replace(heads, scale=-heads.scale)
    assert torch.equal(reconstruction.scores(negated)[1], reconstruction.scores(heads)[1])
    with pytest.raises(ReconstructionError, match="^here: the adapter is not this model there"):
        reconstruction.check_scores(negated, torch.ones(2, 7, dtype=torch.bool), "here")
    for name, map in MAPS.items():
        signed = {
            field: -value
            for field, value in vars(map).items()
            if field in ("weight", "factors", "scale", "weights", "bias") and value is not None
        }
        assert signed or name == "mix"
        assert torch.equal(replace(map, **signed).absolute(POSITIVE), map.absolute(POSITIVE)), name
    one = torch.ones(3)
    with pytest.raises(ReconstructionError, match="^here: this check is wrong itself: its bound"):
        compared("here", one, one.index_fill(0, torch.tensor([1]), -2.0), seen=one)


def test_fused_maps_taken_apart_wrongly():
    """Queries, keys and values one after the other, where a head has its own three together."""
    model, ids = modelzoo.model("gpt_neox"), modelzoo.inputs("gpt_neox")
    family = families.gpt_neox

    def wrong(m):
        own = family(m)
        return changed(
            own,
            lambda b: replaced(b, named.Attention, value=lambda v: named.third(v.module, 2)),
        )

    with pytest.raises(ReconstructionError, match="layer 1, block 1, attention: the adapter is"):
        run(model, wrong, ids)


def test_an_activation_that_is_not_zero_at_zero():
    """Its gate would be infinite; a vanishing input to it shows this."""
    model = modelzoo.model("bert", hidden_act="sigmoid")
    with torch.no_grad():
        dense = model.encoder.layer[0].intermediate.dense
        dense.weight[0] = dense.bias[0] = 0
    with pytest.raises(InputError, match="^model: got an activation that is not 0 at 0"):
        trace(model, [3, 4])


def test_a_wrong_final_norm_is_refused():
    model, ids = modelzoo.model("gpt2"), modelzoo.inputs("gpt2")

    def wrong(m):
        own = families.gpt2(m)
        final = named.Norm(m.ln_f, 2 * m.ln_f.eps)
        return named.Architecture(own.layers, own.blocks, final, own.positions, own.causal)

    with pytest.raises(ReconstructionError, match="^end, norm"):
        run(model, wrong, ids)


@pytest.mark.parametrize(
    ("case", "change", "said"),
    [
        ("opt, norms after, narrow", {"projection": off}, "^end, projection: the adapter is not"),
        ("opt, norms after, narrow", {"projection": lambda _: None}, "^end: the adapter is not"),
        ("opt", {"final": lambda _: None}, "^end: the adapter is not this model there: the model"),
        ("gemma", {"final": plain}, "^end, norm: the adapter is not"),
    ],
)
def test_a_wrong_end_is_refused(case, change, said):
    """A projection off by 2^-40; one, and a final norm, left out; Gemma's with weights w."""
    model, ids = modelzoo.model(case), modelzoo.inputs(case)
    ((name, make),) = change.items()

    def wrong(m):
        own = families.FAMILIES[m.config.model_type](m)
        return replace(own, **{name: make(getattr(own, name))})

    with pytest.raises(ReconstructionError, match=said):
        run(model, wrong, ids)


def layers_left_out(architecture, *left):
    layers = [layer for i, layer in enumerate(architecture.layers) if i not in left]
    return replace(architecture, layers=layers)


@pytest.mark.parametrize("tokens", [1, 7])
@pytest.mark.parametrize("case", ["bert", "gpt2", "mistral", "roberta", "bloom", "vit"])
def test_leading_layers_left_out_are_refused(case, tokens):
    """Also of one token, which has no other row and is read twice; and of embeddings."""
    model, ids = modelzoo.model(case), modelzoo.inputs(case, tokens=tokens)
    family = families.FAMILIES[model.config.model_type]
    texts = [ids] if case == "vit" else [ids, model.get_input_embeddings()(ids).detach()]
    said = "^layer 1, input: the adapter is not this model there: tokens are mixed before"
    for text in texts:
        run(model, family, text)
        with pytest.raises(ReconstructionError, match=said):
            run(model, lambda m: layers_left_out(family(m), 0), text)


@pytest.mark.parametrize("norm_first", [False, True])
def test_leading_layers_of_torch_and_layers_in_the_middle_are_refused(norm_first):
    layer = modelzoo.encoder(norm_first, batch_first=False).layers[0]
    stack = modelzoo.shaken(nn.TransformerEncoder(layer, 3, enable_nested_tensor=False))
    X = torch.randn(5, 2, 12, generator=torch.Generator().manual_seed(1))
    run(stack, families.torch_encoder, X)
    for left, said in ((0, "^layer 1, input: "), (1, "."), (2, "^end: ")):
        with pytest.raises(ReconstructionError, match=said):
            run(stack, lambda m, left=left: layers_left_out(families.torch_encoder(m), left), X)
    with pytest.raises(ReconstructionError, match=r"^layer 1, input: .* of the first token"):
        run(
            modelzoo.model("llama", num_hidden_layers=3),
            lambda m: layers_left_out(families.llama(m), 0, 1),
            {"input_ids": [[0, 0, 4, 5]], "attention_mask": [[0, 0, 1, 1]]},
        )
    with pytest.raises(ReconstructionError):
        run(
            modelzoo.model("llama", num_hidden_layers=3),
            lambda m: layers_left_out(families.llama(m), 1),
            torch.tensor([[3, 4, 5]]),
        )


@pytest.mark.parametrize("case", modelzoo.CASES)
@pytest.mark.parametrize("last", [False, True])
def test_a_changed_token_changes_its_row_and_no_other(case, last):
    """So that the check sees something: of every family, of tokens of padding and of one."""
    subject = Subject.of(modelzoo.model(case))
    texts = [modelzoo.inputs(case)]
    texts += [] if case == "vit" else [torch.ones(1, 4, dtype=torch.long), texts[0][:, :1]]
    for text in texts:
        given = Inputs.of(subject.model, subject.architecture, text)
        other, rows = given.changed(subject.model, last)
        expected = torch.zeros(given.shape, dtype=torch.bool)
        expected[torch.arange(len(rows)), rows] = True
        found = subject._entering(other) != subject._entering(given)
        assert torch.equal(found.any(-1), expected)


# ---------------------------------------------------------------- bounds


def test_a_bound_is_infinite_where_nothing_is_known():
    assert trace_module.gamma(1.0, 2.0**-53) <= 2.0**-52
    assert trace_module.gamma(2.0**52, 2.0**-53) == torch.inf


N, D = 5, 8
POSITIVE = torch.rand(1, N, D, generator=torch.Generator().manual_seed(0)).double() + 0.5
EXPERTS = torch.tensor([[[0, 2], [1, 0], [2, 1], [0, 1], [1, 2]]])
MAPS = {
    "dense": maps.Dense(POSITIVE[0].T @ POSITIVE[0], POSITIVE[0, 0]),
    "mix": maps.Mix(POSITIVE[:, None, :, :N] / POSITIVE[:, None, :, :N].sum(-1, True), 1),
    "gate": maps.Gate(POSITIVE.flip(1)),
    "gate and shift": maps.Gate(POSITIVE.flip(1), POSITIVE, roundings=3.0),
    "chosen": maps.Chosen(
        POSITIVE.expand(3, N, D).mT[..., :4] @ POSITIVE[:, :4], POSITIVE[0, :3], EXPERTS
    ),
    "chosen, apart": maps.Chosen(POSITIVE[0, :, :4].expand(3, N, 4)[:, :4], None, EXPERTS, True),
    "weighted": maps.Weighted(POSITIVE[..., :2]),
    "norm": maps.Norm.at(POSITIVE, 1e-6, False, POSITIVE[0, 0], POSITIVE[0, 1]),
}
SINGLE = 2.0**-24


def passes(step, relative):
    """Whether a step whose largest output is off by so much is taken for the model's."""
    seen = step.seen.clone()
    seen.view(-1)[seen.argmax()] *= 1 + relative
    try:
        Streams.of(POSITIVE, torch.ones(1, N, dtype=torch.bool)).through(
            [Step("here", step.maps, seen, step.unit)], "layer 1"
        )
    except ReconstructionError:
        return False
    return True


@pytest.mark.parametrize("unit", [reconstruction.HERE, SINGLE])
@pytest.mark.parametrize("name", MAPS)
def test_the_bound_of_a_step_is_no_wider_than_derived(name, unit):
    """Where no terms cancel it is a number of units roundoff, twice, and no more.

    All is positive, so |M| |x| + |s| = y. With m roundings and k = 3 (two streams and one) the
    bound of the module's docstring is 2 (m u + (m + k) v + 2 k v) y to first order. Three quarters
    of it pass, so a bound that is halved is seen; five quarters do not.
    """
    map = MAPS[name]
    exact = Step("here", [map], map.linear(POSITIVE) + map.shift, unit)
    m = float(torch.as_tensor(map.roundings).max())
    bound = 2 * (m * unit + (m + 3 + 6) * reconstruction.HERE)
    assert passes(exact, 0.0) and passes(exact, 0.75 * bound)
    assert not passes(exact, 1.25 * bound)


@pytest.mark.parametrize("unit", [reconstruction.HERE, SINGLE])
def test_the_bound_of_a_sum_is_no_wider_than_derived(unit):
    """x + b of positive terms: 2 (3 u + 3 v + 6 v) of the sum, as above with three roundings."""
    branch = Branch([Step("here", [MAPS["gate"]], MAPS["gate"].linear(POSITIVE), unit)])
    total = POSITIVE + branch.steps[-1].seen
    valid = torch.ones(1, N, dtype=torch.bool)
    bound = 2 * (3 * unit + 9 * reconstruction.HERE)
    for relative in (0.0, 0.75 * bound, 1.25 * bound):
        seen = total.clone()
        seen[0, 1, 2] *= 1 + relative
        arrived = Streams.of(POSITIVE, valid)
        if relative < bound:
            arrived.through_block(Block([branch], seen, unit), "layer 1")
            continue
        with pytest.raises(ReconstructionError, match="^layer 1, sum: the adapter is not this"):
            arrived.through_block(Block([branch], seen, unit), "layer 1")


def accepted(heads) -> bool:
    """Whether attention matrices are taken for the model's."""
    try:
        reconstruction.check_scores(heads, torch.ones(1, N, dtype=torch.bool), "here")
    except ReconstructionError as error:
        assert "here: the adapter is not this model there" in str(error)
        return False
    return True


def test_the_bound_of_a_probability_is_no_wider_than_derived():
    """Scores of zero: 2 gamma_(n + 6) of the float32 softmax is all that is left of the bound."""
    found = (
        trace(modelzoo.model("bert"), modelzoo.inputs("bert", batch=1, tokens=N)).layers[0].heads
    )
    bound = 2 * (N + 6) * SINGLE
    for relative in (0.0, 0.95 * bound, 1.05 * bound):
        P = torch.full_like(found.P, 1 / N)
        P[0, 1, 2, 3] *= 1 + relative
        zero = {name: torch.zeros_like(getattr(found, name)) for name in ("W_Q", "b_Q")}
        assert accepted(replace(found, P=P, **zero)) is (relative < bound)


#: What a score's queries and keys pass, with its roundings to bfloat16, those of either twice.
ROTATION = POSITIVE[..., :2] * 0 + 1, POSITIVE[..., :2] * 0
HEAD_NORM = trace_module.HeadNorm(0.0, False, 1.0, 0.0)
STORED = [
    ({}, 2 * 2 + 3),
    ({"rotation": ROTATION}, 2 * (2 + 3) + 3),
    ({"norms": (HEAD_NORM, HEAD_NORM)}, 2 * (2 * 2 + 3) + 3),
    ({"cap": 1e9}, 2 * 2 + 3 + 3),
]


@pytest.mark.parametrize(("more", "roundings"), STORED)
def test_the_bound_of_a_probability_in_bfloat16_counts_what_is_stored(more, roundings):
    """Scores of size 1: e^E - 1 twice, E = 2 gamma_R(2^-8) + gamma_1(2^-8), and float32's part."""
    one = torch.ones(1, 1, 2).double()
    names = dict.fromkeys(("W_Q", "W_K", "W_V"), one) | dict.fromkeys(("b_Q", "b_K"), 0 * one[0])
    more = {"scale": 0.5, "key_heads": 1, "unit": 2.0**-8, "softmax_unit": SINGLE} | names | more
    gammas = [r * 2.0**-8 / (1 - r * 2.0**-8) for r in (roundings, 1)]
    bound = 2 * math.expm1(2 * gammas[0] + gammas[1]) / N
    for part in (0.97, 1.03):
        P = torch.full((1, 1, N, N), 1 / N).double()
        P[0, 0, 1, 2] += part * bound
        heads = trace_module.Heads(input=POSITIVE[..., :1] * 0 + 1, P=P, W_O=one.mT, **more)
        assert accepted(heads) is (part < 1)


def test_the_least_that_a_bound_is():
    """Twice the least normal number for a probability of 0, 2^20 of it for a step."""
    assert reconstruction.underflow(SINGLE) == 2.0 ** (20 - 126)
    assert reconstruction.underflow(reconstruction.HERE) == 2.0 ** (20 - 1022)
    found = (
        trace(modelzoo.model("bert"), modelzoo.inputs("bert", batch=1, tokens=N)).layers[0].heads
    )
    bias = torch.zeros(1, 1, N, N).double()
    bias[..., 0, 1:] = -200
    zero = {name: torch.zeros_like(getattr(found, name)) for name in ("W_Q", "b_Q")}
    P = torch.softmax(bias, -1).expand_as(found.P).clone()
    for part in (1.9, 2.1):
        P[0, 1, 0, 3] = part * 2.0**-126
        assert accepted(replace(found, P=P, bias=bias, **zero)) is (part < 2)


def test_what_rounding_has_left_counts_in_the_bound_of_a_step():
    """With nothing in the streams it is all of the model's values x, which a gate takes to y.

    Its two roundings, and with k = 3 as above, make the bound 2 (2 + 5 + 3) u y. What comes is off
    by 12 u y, and by up to 2 u y more or less that making it takes.
    """
    nothing, valid = torch.zeros_like(POSITIVE), torch.ones(1, N, dtype=torch.bool)
    left = Streams(torch.stack([nothing, nothing]), POSITIVE, POSITIVE, nothing, valid)
    seen = MAPS["gate"].linear(POSITIVE) * (1 + 12 * reconstruction.HERE)
    left.through([Step("here", [MAPS["gate"]], seen, reconstruction.HERE)], "layer 1")
    assert 10 / 20 < left.checks[-1].ratio < 14 / 20


def test_roundings_of_a_score_and_of_a_norm_are_counted():
    """Width + 1 of a query and of a key, key_width of their product, and eight; of an RMS norm
    without epsilon 3 (width + 2) of the mean square, which is the variance, and width + 8.
    """
    heads = trace(modelzoo.model("bert"), modelzoo.inputs("bert", tokens=N)).layers[0].heads
    assert heads.W_Q.shape[-2:] == (12, 4)
    assert float(reconstruction.scores(heads)[2]) == 2 * 13 + 4 + 8
    norm = maps.Norm.at(POSITIVE, 0.0, False, 1.0, 0.0)
    assert torch.equal(norm.roundings, torch.full((1, N, 1), 3.0 * (D + 2) + D + 8).double())


def test_roundings_of_a_rotation_are_counted():
    """Two products and a sum for a query and for a key, beside those of a score without."""
    heads = trace(modelzoo.model("llama"), modelzoo.inputs("llama", tokens=N)).layers[0].heads
    width, key_width = heads.W_Q.shape[-2:]
    plain = replace(heads, rotation=None)
    assert float(reconstruction.scores(plain)[2]) == 2 * (width + 1) + key_width + 8
    assert float(reconstruction.scores(heads)[2]) == 2 * (width + 1 + 3) + key_width + 8


def test_what_no_stream_carries_counts_in_the_bound_of_a_sum():
    """Of size 1, off by 2u, u = 2^-53. Two roundings there and two here explain 4u, the total of
    two streams and its comparison 3u; the bound is twice their sum.
    """
    one, zero = torch.ones(1, 1, 1).double(), torch.zeros(1, 1, 1).double()
    streams = Streams(torch.zeros(2, 1, 1, 1).double(), one, one, zero, torch.ones(1, 1).bool())
    streams.through_block(Block([], one + 2.0**-52, reconstruction.HERE), "here")
    assert torch.equal(Streams.of(-one, torch.ones(1, 1).bool()).size, one)
    assert streams.checks[-1].ratio == pytest.approx(2 / (2 * (4 + 3)), rel=2.0**-48)


def test_roundings_of_a_bias_count_there_and_here():
    """No weight, a bias of 1, off by u = 2^-24. The model's two roundings explain 2u of it; what is
    computed here, in float64, less than 2^-50. The bound is twice their sum.
    """
    one, unit = torch.ones(1, 1, 1).double(), 2.0**-24
    step = Step("biases", [maps.Dense(0 * one[0], one[0, 0])], one + unit, unit)
    streams = Streams.of(one, torch.ones(1, 1).bool())
    streams.through([step], "here")
    assert streams.checks[-1].ratio == pytest.approx(1 / (2 * 2), rel=2.0**-20)


def test_a_model_in_float64_is_compared_in_its_own_roundings():
    """No weight, a bias of 1, off by 2u, u = 2^-53: two roundings there, five here, and six for the
    sizes 1 and 1 of two streams and their comparison; the bound is twice their sum.
    """
    one, unit = torch.ones(1, 1, 1).double(), reconstruction.HERE
    step = Step("biases", [maps.Dense(0 * one[0], one[0, 0])], one + 2 * unit, unit)
    streams = Streams.of(one, torch.ones(1, 1).bool())
    streams.through([step], "here")
    assert streams.checks[-1].ratio == pytest.approx(2 / (2 * (2 + 5 + 6)), rel=2.0**-48)


def test_an_error_of_its_bound_is_the_most_that_passes():
    one = torch.ones(3)
    assert compared("here", one, one, seen=one).ratio == 1
    with pytest.raises(ReconstructionError, match=r"off by 1 where rounding explains 1 \(1 times"):
        compared("here", one * (1 + 2.0**-20), one, seen=one)


def test_coarse_dtypes_are_refused():
    """float16 in any case, bfloat16 where weights would be rounded to it."""
    said = '^dtype: got {} for weights of {}, expected "float32" or "float64"'
    with pytest.raises(InputError, match=said.format("bfloat16", "float32")):
        trace(modelzoo.model("bert"), [3, 4], torch.bfloat16)
    half = modelzoo.model("bert").to(torch.float16)
    with pytest.raises(InputError, match=said.format("float16", "float16")):
        trace(half, [3, 4], None)
    assert Subject.of(half).notes == ("weights promoted from float16 to float64",)


#: A bias of the scores, sinks, experts: their roundings to bfloat16 are not counted.
UNCOUNTED = [
    c for c in modelzoo.CASES if c.startswith(("bloom", "t5", "mt5", "mixtral", "gpt_oss"))
]
UNCOUNTED += ["falcon, alibi", "afmoe"]


@pytest.mark.parametrize("case", UNCOUNTED)
def test_bfloat16_is_refused(case):
    model, ids = modelzoo.model(case).to(torch.bfloat16), modelzoo.inputs(case)
    with pytest.raises(InputError, match='^dtype: got bfloat16 with .*, expected "float32" or'):
        trace(model, ids, None)


@pytest.mark.parametrize("case", [c for c in modelzoo.CASES if c not in UNCOUNTED])
def test_bfloat16_as_run(case, tmp_path):
    """Within bounds of its own, and the model's own output; other than that of float64."""
    model, ids = modelzoo.loaded(modelzoo.model(case), tmp_path), modelzoo.inputs(case)
    found = trace(model, ids, None)
    name = "pixel_values" if case == "vit" else "input_ids"
    expected = modelzoo.reference(model, {name: ids}).double()
    assert torch.equal(found.output, expected) and torch.equal(expected, expected.bfloat16())
    # Of the largest check, so that bounds are not wide beyond use: a sum has two of its 2 * 3.
    assert 2.0**-4 < max(check.ratio for check in reconstruct(found).checks) <= 1


@pytest.mark.parametrize("theta", [1e4, 1e6])
@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("case", ["llama", "gemma2"])
def test_bfloat16_is_the_model_as_loaded_far_into_a_text(case, size, theta, tmp_path):
    """At 512 tokens, where rounded frequencies of rotary positions would turn it elsewhere."""
    rotary = {"rope_type": "default", "rope_theta": theta}
    sizes = {"head_dim": size, "max_position_embeddings": 512, "rope_parameters": rotary}
    sizes |= {"attn_logit_softcapping": 50.0} if case == "gemma2" else {}
    model = modelzoo.loaded(modelzoo.headed(case, "AutoModelForCausalLM", **sizes), tmp_path)
    model.set_attn_implementation("eager")
    ids = torch.randint(3, 23, (1, 512), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        own = model(ids, output_hidden_states=True, output_attentions=True)
    found = trace(model, ids, dtype="bfloat16")
    hidden = [*(layer.input for layer in found.layers), found.output]
    for seen, expected in zip(hidden, own.hidden_states, strict=True):
        assert torch.equal(seen, expected.double())
    for layer, expected in zip(found.layers, own.attentions, strict=True):
        assert torch.equal(layer.heads.P, expected.double())
    for given in (model, tmp_path):
        report = inspect(given, ids, dtype=None, scalar={"logit": 7}, brief=True)
        assert report.scalar["value"] == float(own.logits[0, -1, 7])
        assert report.proof["largest_error_over_bound"] <= 1


#: Mistakes of about a hundredth or less, which bfloat16 hides, and norms that are alike here.
HIDDEN = ("scale", "epsilon", "another cap", "norms of heads exchanged", "norms head by head")


SEEN = [n for n in WRONG if n not in HIDDEN and "2^-40" not in n and WRONG[n][0] not in UNCOUNTED]


@pytest.mark.parametrize("name", SEEN)
def test_a_wrong_adapter_is_refused_in_bfloat16(name):
    case, change = WRONG[name]
    model, ids = modelzoo.model(case).to(torch.bfloat16), modelzoo.inputs(case)
    family = families.FAMILIES[model.config.model_type]
    with pytest.raises(ReconstructionError):
        run(model, lambda m: changed(family(m), change), ids, None)


def test_the_bound_of_what_is_stored_in_bfloat16_is_no_wider_than_derived():
    """Three roundings u = 2^-8 of a value, 3 u / (1 - 6 u) of what is seen, and twice in all."""
    unit = 2.0**-8
    for name, map in MAPS.items():
        exact = Step("here", [map], map.linear(POSITIVE) + map.shift, unit)
        assert exact.inner == SINGLE and passes(exact, 5.5 * unit), name
        # the bias counts beside what is seen, of which it is a part
        assert not passes(exact, 7 * unit * (1 + isinstance(map.shift, torch.Tensor))), name


@pytest.mark.parametrize("centered", [True, False])
def test_rounding_of_a_norm(centered):
    """What torch computes in float32 is within the bound, also far from the origin."""
    generator = torch.Generator().manual_seed(0)
    for offset in (0.0, 10.0, 1000.0):
        x = torch.randn(1, 50, 33, generator=generator) + offset
        exact = maps.Norm.at(x.double(), 1e-6, centered, 1.0, 0.0)
        function = nn.functional.layer_norm if centered else nn.functional.rms_norm
        off = (function(x, (33,), eps=1e-6) - exact.linear(x.double())).abs()
        bound = trace_module.gamma(exact.roundings, 2.0**-24) * exact.absolute(x.double().abs())
        assert (off <= bound).all()
        assert (off.max() >= 2.0**-20 * bound.max()) or offset == 1000.0


@pytest.mark.parametrize("error, bound", [(torch.nan, 1.0), (1.0, torch.nan), (1.0, torch.inf)])
def test_what_is_no_number_is_no_agreement(error, bound):
    """Nor is one of many: an error and a bound of zero beside them would pass."""
    errors, bounds = torch.tensor([0.0, error, 0.0]), torch.tensor([1.0, bound, 1.0])
    with pytest.raises(ReconstructionError):
        compared("here", errors, bounds, seen=errors)
    assert compared("here", errors[:1], bounds[:1], seen=bounds[:1]).ratio == 0


# ---------------------------------------------------------------- bfloat16


def coarse(case, **options):
    """A bfloat16 model of width 128, whose weights neither shrink nor blow up what they multiply,
    and 24 tokens.
    """
    sizes = {"hidden_size": 128, "intermediate_size": 160, "max_position_embeddings": 64}
    sizes |= {"vocab_size": 100, "num_attention_heads": 4, "num_key_value_heads": 4}
    heads = {"head_dim": 32} if case in ("qwen3", "gemma2", "gemma3") else {}
    scalar = {"query_pre_attn_scalar": 32} if case.startswith("gemma") else {}
    types = {"layer_types": ["full_attention"] * 2} if case.startswith("gemma") else {}
    model = modelzoo.model(case, **sizes, **heads, **scalar, **types, **options)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.ndim == 2:
                value.normal_(0, value.shape[1] ** -0.5, generator=generator)
            elif name.endswith("bias"):
                value.normal_(0, 0.3, generator=generator)
            else:  # of norms
                value.uniform_(1.0, 2.0, generator=generator)
    return model.to(torch.bfloat16), torch.randint(3, 100, (1, 24), generator=generator)


def reversed_heads(part):
    """The heads of a projection in the opposite order."""
    weight = part.weight.unflatten(1, (4, 32)).flip(1).flatten(1)
    return replace(part, weight=weight)


COARSE_REFUSED = {
    "query bias": ("qwen2", attention(query=without_bias)),
    "key bias": ("qwen2", attention(key=without_bias)),
    "value bias": ("qwen2", attention(value=without_bias)),
    "query heads": ("llama", attention(query=reversed_heads)),
    "key heads": ("gemma3", attention(key=reversed_heads)),
    "norm before": ("llama", without_norm),
    **{f"rotation, {c}": (c, attention(rotary=lambda _: False)) for c in ("llama", "gemma2")},
    **{f"norms, {c}": (c, attention(norms=lambda _: None)) for c in ("qwen3", "olmo2", "gemma3")},
}


@pytest.mark.parametrize("name", COARSE_REFUSED)
def test_what_bfloat16_refuses(name):
    case, change = COARSE_REFUSED[name]
    model, ids = coarse(case)
    family = families.FAMILIES[model.config.model_type]
    with pytest.raises(ReconstructionError, match="the adapter is not this model there: off by"):
        run(model, lambda m: changed(family(m), change), ids, None)


@pytest.mark.parametrize(
    ("case", "change", "blind"),
    [
        ("qwen3", attention(scale=lambda s: s / 2), True),
        ("olmo2", attention(scale=lambda s: s / 2), True),
        ("gemma3", attention(scale=lambda s: s / 2), True),
        ("llama", attention(scale=lambda s: 0.7 * s), None),
        ("gemma2", attention(cap=lambda _: None), None),
    ],
)
def test_what_bfloat16_does_not_refuse(case, change, blind):
    """The limits that the page states: scale and soft cap; where scores decide nothing it is said.

    In float32 the same mistakes are refused.
    """
    cap = {"attn_logit_softcapping": 50.0} if case == "gemma2" else {}
    model, ids = coarse(case, **cap)
    family = families.FAMILIES[model.config.model_type]
    run(model, lambda m: changed(family(m), change), ids, None)
    right = [c.idle for c in run(model, family, ids, None).checks if c.place.endswith("scores")]
    assert len(right) == 2 and (blind is None or right == [blind] * 2)
    assert not any(check.idle for check in run(model, family, ids, torch.float32).checks)
    with pytest.raises(ReconstructionError, match="^layer 1, scores: the adapter is not this"):
        run(model, lambda m: changed(family(m), change), ids, torch.float32)
