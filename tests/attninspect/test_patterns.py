"""Attention patterns on the page of a report: what is kept of them, how a reader moves there."""

import dataclasses
import re

import pytest
import torch
from markupsafe import escape

import accessibility
import attnverify as av
import modelzoo
from attninspect import absent, command, page, patterns, scalar, words
from attninspect.columns import TABLES, visible
from attninspect.patterns import Patterns
from attninspect.reconstruction import ReconstructionError
from attnverify.book.sphinx import citing
from attnverify.chapters import registry
from attnverify.mathematics.maps import Mix
from attnverify.support.errors import InputError
from visits import STICKING_OUT

SIZES = [(1280, 900), (390, 844)]


def inspected(case="gpt2", scalar=True, **options):
    model = modelzoo.model(case)
    ids = modelzoo.inputs(case, batch=1)
    options |= {"scalar": {"coordinate": 1, "at": 3}} if scalar else {}
    return av.inspect(model, ids, **options)


def weight(q):
    """The weights that bytes stand for."""
    return (q.double() / 255).square()


def error(q):
    """The most that these weights are off by."""
    return (2 * q.double() / 255 + 1 / 510) / 510


def test_weights_are_within_the_error_that_is_told():
    """u: of the root; the product with 255 and what a byte stands for have two roundings each."""
    P = torch.cat([torch.rand(1000), torch.rand(1000) ** 8, (torch.arange(510) + 0.5) / 510])
    P = torch.cat([P.double(), torch.tensor([0.0, 1.0, 1e-12])])
    q = patterns.stored(P)
    assert bool(((weight(q) - P).abs() <= error(q) + 6 * 2.0**-53).all())
    assert float(error(q).max()) < 0.004 and float(error(q).min()) < 4e-6
    wrong = weight(q) - 1.01 * P
    assert not bool((wrong.abs() <= error(q) + 6 * 2.0**-53).all())


def test_a_page_of_144_heads_at_128_tokens_has_at_most_3_megabytes():
    """Of the distribution of most entropy: square roots of weights are halves of Gaussians."""
    report = inspected()
    n, heads, layers = 128, 12, range(1, 13)
    root = torch.randn(heads * len(layers), n, n, generator=torch.Generator().manual_seed(1)).abs()
    P = (root / root.norm(dim=-1, keepdim=True)).square().unflatten(0, (-1, heads))
    found = Patterns.of(None, layers, (12, heads), torch.ones(n, dtype=torch.bool))
    for layer in layers:
        found.add(layer, P[layer - 1])
    found.read(dict.fromkeys(layers, torch.randn(heads, n, dtype=torch.float64)))
    found = found.fitting([])
    places = [{"layer": i, "head": h + 1} for i in layers for h in range(heads)]
    rows = {
        name: [getattr(report, name)[0] | place for place in places]
        for name in ("heads", "scalar_heads")
    }
    full = dataclasses.replace(
        report,
        model=report.model | {"layers": 12, "heads": heads},
        inputs=report.inputs | {"tokens": n, "words": ["committee"] * n},
        patterns=found,
        **rows,
    )
    assert found.told() == "" and 1_500_000 < len(page.page(full).encode()) <= 3_000_000


def long(tokens: int, causal: bool, number: bool, chosen=None, heads: int = 12):
    """A report on so many tokens, with patterns of most entropy in 2 layers."""
    report, valid = inspected(scalar=number), torch.ones(tokens, dtype=torch.bool)
    found, draw = Patterns.of(chosen, [1, 2], (2, heads), valid), torch.Generator().manual_seed(1)
    for layer in (1, 2):
        root = torch.randn(heads, tokens, tokens, generator=draw).abs()
        root = root.tril() if causal else root
        found.add(layer, (root / root.norm(dim=-1, keepdim=True)).square())
    if number:
        found.read(dict.fromkeys((1, 2), torch.randn(heads, tokens, dtype=torch.float64)))
    places = [{"layer": i, "head": h} for i in (1, 2) for h in range(1, heads + 1)]
    tables = ("heads", "scalar_heads") if number else ("heads",)
    rows = {name: [getattr(report, name)[0] | place for place in places] for name in tables}
    words = [["committee", " ", "\n", "\t", " the"][i % 5] for i in range(tokens)]
    inputs = report.inputs | {"tokens": tokens, "words": words}
    model = report.model | {"heads": heads}
    whole = dataclasses.replace(report, model=model, inputs=inputs, **rows)
    return dataclasses.replace(whole, patterns=found.fitting([(2, 3), (2, 2), (1, 1)]))


@pytest.mark.parametrize(
    ("tokens", "heads", "causal", "chosen", "shown"),
    [
        (512, 12, False, None, [(1, 1), (2, 2), (2, 3)]),
        (512, 12, True, "2", [(2, h) for h in range(1, 13)]),
        (512, 12, False, "2.3,1.5", [(1, 5), (2, 3)]),
        (1024, 3, False, None, [(1, 1), (2, 2), (2, 3)]),
        (1024, 4, True, "2,1", [(1, 1), *((2, h) for h in range(1, 5))]),
        (2560, 1, False, "2", []),
    ],
)
def test_a_page_of_a_long_text_has_patterns_and_at_most_3_megabytes(
    tokens, heads, causal, chosen, shown
):
    report = long(tokens, causal, causal, patterns.places(chosen), heads)
    html = page.page(report)
    assert list(report.patterns.packed) == shown and len(html.encode()) <= 3_000_000
    assert escape(report.patterns.told()) in html
    assert ("--patterns 3,5.2" in html) == bool(shown)
    assert all(f"{layer}.{head}" in report.patterns.told() for layer, head in shown[::11])


def test_which_patterns_are_asked_for():
    assert patterns.places([3, "5.2"]) == patterns.places("3, 5.2") == [(3, None), (5, 2)]
    assert patterns.places(range(1, 3)) == patterns.places("1-2") == [(1, None), (2, None)]
    for wrong in ("", "a", "0", "1.0", "2-1", [1.5], True, "1.2.3", "-1", "1_0", [[1, 2]]):
        with pytest.raises(InputError, match="^patterns: got .*, expected layers from 1, or heads"):
            patterns.places(wrong)
    for wrong, named in (("3", "3.1"), ("2.6", "2.6"), ("1", "1.1")):
        with pytest.raises(InputError, match=f"^patterns: got head {named}, expected heads 1 to 5"):
            inspected(patterns=wrong, layers=2)
    with pytest.raises(InputError, match="^patterns: got '2' for a brief report, which has none"):
        inspected(patterns="2", brief=True)
    found = inspected(patterns="2.4,1").patterns
    assert (
        [*found.weights]
        == [*found.keys]
        == [*found.packed]
        == [(1, h + 1) for h in range(5)] + [(2, 4)]
    )
    assert "1.1 to 1.5, 2.4, as asked for." in found.told()


@pytest.mark.parametrize("case", ["gpt2", "bert", "llama"])
def test_layers_and_heads_that_sentences_name_come_first(case):
    report = inspected(case)
    told = " ".join(words.found(report))
    layers = {int(n) for n in re.findall(r"layer (\d+)", told)}
    heads = {(int(a), int(b)) for a, b in re.findall(r"layer (\d+), head (\d+)", told)}
    direct = sorted(report.scalar_heads, key=lambda row: -abs(row["direct"]))[:3]
    heads |= {(row["layer"], row["head"]) for row in direct}
    named = words.named(report)
    assert set(named[: len(heads)]) == heads and {layer for layer, _ in named} >= layers


def test_blanks_in_tokens_are_seen_and_no_two_look_alike():
    odd = [chr(i) for i in range(0x3000 + 1) if not chr(i).isprintable() or chr(i) == " "]
    seen = [visible(letter) for letter in odd]
    assert len(set(seen)) == len(odd) and all(
        each.isprintable() and " " not in each for each in seen
    )
    assert visible(" a\n") == "␣a⏎" and visible("committeé") == "committeé"
    report = inspected()
    names = [" ", "\n", "\t", "a", "b", "c", "d"]
    tokens = [
        row | {"word": word}
        for row, word in zip(report.scalar_tokens, [*names, None, None], strict=True)
    ]
    nearest = [row | {"nearest": [1, 2]} for row in report.layers]
    inputs = report.inputs | {"words": names}
    more = {"inputs": inputs, "scalar_tokens": tokens, "layers": nearest}
    html = page.page(dataclasses.replace(report, **more))
    assert "<td>␣</td>" in html and "<td>⏎</td>" in html and "<td>⇥</td>" in html
    assert "<td>1 ␣, 2 ⏎</td>" in html and '[1, "␣"], [2, "⏎"]' in html
    assert "<title>1 ␣: " in html and "<title>2 ⏎: " in html
    assert command.as_csv(tokens[:2]).splitlines()[1].endswith(", ")


def test_padding_is_left_out():
    valid = torch.tensor([False, True, True])
    found = Patterns.of(None, [1], (1, 1), valid)
    P = torch.tensor([[[1.0, 0, 0], [0, 1, 0], [0, 0.25, 0.75]]])
    found.add(1, P)
    assert found.tokens == [2, 3]
    off = (weight(found.weights[1, 1]) - P[0, 1:, 1:]).abs()
    assert bool((off <= error(found.weights[1, 1])).all())


def test_key_tokens_are_those_of_the_page_where_there_is_padding():
    ids, mask = torch.tensor([[7, 7, 5, 6, 7, 8]]), torch.tensor([[0, 0, 1, 1, 1, 1]])
    given = {"input_ids": ids, "attention_mask": mask}
    found = av.inspect(modelzoo.model("gpt2"), given, scalar={"coordinate": 3}).patterns
    alone = av.inspect(modelzoo.model("gpt2"), ids[:, 2:], scalar={"coordinate": 3}).patterns
    every = {(layer, head) for layer in (1, 2) for head in range(1, 6)}
    assert found.tokens == [3, 4, 5, 6] and set(found.keys) == set(found.packed) == every
    assert all(each.shape == (4,) for each in [*found.keys.values(), *alone.keys.values()])


@pytest.mark.parametrize("case", ["gpt2", "llama", "bert"])
def test_what_key_tokens_give_adds_up_to_the_heads(case):
    """The number reads one token, so only its row of attention counts."""
    report, trace = inspected(case), av.trace(modelzoo.model(case), modelzoo.inputs(case, batch=1))
    assert report.patterns is not None
    direct = {(row["layer"], row["head"]): row["direct"] for row in report.scalar_heads}
    for layer in trace.layers:
        for head, P in enumerate(layer.heads.P[0], 1):
            row = report.patterns.keys[layer.number, head]
            assert float(row.sum()) == pytest.approx(direct[layer.number, head], abs=1e-9)
            assert bool((row[P[2] == 0] == 0).all())


def test_key_tokens_entry_by_entry_and_a_wrong_split():
    draw = torch.Generator().manual_seed(2)
    P = torch.rand(1, 4, 5, 5, generator=draw, dtype=torch.float64)
    mix = Mix(P, 2)
    x, g = (torch.randn(1, 5, w, generator=draw, dtype=torch.float64) for w in (6, 12))
    direct = (mix.linear(x) * g)[0].unflatten(-1, (4, 3)).sum(-1).sum(0)
    found, check = scalar.by_key(mix, x, g, direct, 1)
    assert check.ratio <= 1 and not check.idle
    for h in range(4):
        v, a = x[0].unflatten(-1, (2, 3))[:, h // 2], g[0].unflatten(-1, (4, 3))[:, h]
        for j in range(5):
            wanted = sum(float(P[0, h, i, j]) * float(v[j] @ a[i]) for i in range(5))
            assert float(found[h, j]) == pytest.approx(wanted, rel=1e-12)
    for other in (Mix(P.mT, 2), Mix(P * (1 + 2.0**-40), 2)):
        with pytest.raises(ReconstructionError, match="layer 1, number by key token"):
            scalar.by_key(other, x, g, direct, 1)


@pytest.fixture
def view(browser, tmp_path, request):
    """The page of a report with a number, opened; pages with errors fail."""
    size, theme = getattr(request, "param", (SIZES[0], "light"))
    command.write(inspected(), tmp_path)
    opened = browser.new_page(
        color_scheme=theme, viewport={"width": size[0], "height": size[1]}, has_touch=True
    )
    errors = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.goto((tmp_path / "inspect.html").as_uri())
    opened.wait_for_selector("#patterns .bars li")
    yield opened
    opened.close()
    assert errors == []


def chosen(view) -> list[str]:
    return view.evaluate("[...document.querySelectorAll('#patterns select')].map(s => s.value)")


@pytest.mark.browser
def test_every_weight_that_is_told_is_that_of_the_model(view):
    """By keys alone through all layers, heads and tokens of a small model."""
    trace = av.trace(modelzoo.model("gpt2"), modelzoo.inputs("gpt2", batch=1))
    shape = (len(trace.layers), *trace.layers[0].heads.P.shape[1:3])
    view.locator("canvas").focus()
    for key, count in (("PageUp", shape[0]), ("ArrowLeft", shape[1]), ("ArrowUp", shape[2])):
        for _ in range(count):
            view.keyboard.press(key)
    for layer in range(shape[0]):
        for head in range(shape[1]):
            for token in range(shape[2]):
                assert chosen(view) == [str(layer), str(head), str(token)]
                P = trace.layers[layer].heads.P[0, head, token]
                told = view.locator("#patterns .query li").all_inner_texts()
                assert len(told) == int((patterns.stored(P) > 0).sum())
                for line in told:
                    j, value, off = re.findall(r"[0-9.]+", line)
                    assert abs(float(value) - float(P[int(j) - 1])) <= float(off)
                view.keyboard.press("ArrowDown")
            view.keyboard.press("ArrowRight")
            for _ in range(shape[2]):
                view.keyboard.press("ArrowUp")
        view.keyboard.press("PageDown")
        for _ in range(shape[1]):
            view.keyboard.press("ArrowLeft")


EVERY = [(size, theme) for size in SIZES for theme in ("light", "dark")]


@pytest.mark.browser
@pytest.mark.parametrize("view", EVERY, indirect=True)
def test_boxes_taps_and_figures_choose(view):
    view.locator("#patterns select").nth(0).select_option(index=1)
    assert "layer 2, head 1" in view.locator(".query h3").inner_text()
    box = view.locator("canvas").bounding_box()
    view.locator("canvas").tap(position={"x": box["width"] - 6, "y": box["height"] - 6})
    last = view.evaluate("document.querySelectorAll('#patterns select')[2].options.length - 1")
    assert chosen(view)[2] == str(last)
    assert re.match(r"\d+ looks at \d+: ", view.locator(".cell").inner_text())
    view.evaluate("""[...document.querySelectorAll('.figures rect title')].find(
      t => t.textContent.startsWith('layer 1, head 3:')).parentElement.dispatchEvent(
      new MouseEvent('click'))""")
    assert chosen(view)[:2] == ["0", "2"]
    assert view.evaluate("document.activeElement.tagName") == "CANVAS"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    view.keyboard.press("ArrowLeft")
    assert view.evaluate(outline) == "solid" and chosen(view)[:2] == ["0", "1"]
    assert view.evaluate(STICKING_OUT) == []


@pytest.mark.browser
def test_a_number_by_key_token(view):
    report = inspected()
    assert report.patterns is not None
    layer, head = (int(each) for each in chosen(view)[:2])
    told = view.locator(".given li").all_inner_texts()
    values = report.patterns.keys[layer + 1, head + 1].tolist()
    assert len(told) == len(values)
    for line in told:
        j, value = line.split()
        assert float(value) == pytest.approx(values[int(j) - 1], rel=1e-3)
    assert "what it writes at token 3" in view.locator(".given").inner_text()


@pytest.mark.browser
def test_axe_finds_nothing(view):
    assert accessibility.violations(view, accessibility.script()) == []


# ---------------------------------------------------------------- what is absent, and claims


@pytest.mark.parametrize("case", ["bert", "llama", "vit"])
@pytest.mark.parametrize("brief", [False, True])
def test_every_column_that_is_absent_has_a_reason(case, brief):
    report = inspected(case, scalar=False, brief=brief)
    html = page.page(report)
    assert ("Attention rollout is not compared" in html) == (report.rollout is None)
    assert (escape(patterns.BRIEF) in html) == brief and "nowhere measured" not in html
    for name in ("lengths", "layers", "heads"):
        rows, columns = getattr(report, name), TABLES[name]
        seen = {*absent.shown(rows, columns), "why_no_threshold"}  # only where one is lacking
        left = [c.title for n, c in columns.items() if n not in seen]
        told = absent.columns(rows, columns, brief)
        assert all(title in told for title in left) and bool(told) == bool(left)
        assert not rows or escape(told) in html


def test_claims_lead_to_the_book():
    report = inspected(scalar=False)
    html = page.page(report, command.address("https://host.example/book/"))
    links = re.findall(r'<a href="https://host.example/book/([^"]*)"><code>([^<]*)</code>', html)
    wanted = {c.claim for name in ("lengths", "layers", "heads") for c in TABLES[name].values()}
    assert {id for _, id in links} == wanted - {""}
    assert all(place == citing.permanent(registry[id]) for place, id in links)
    assert "<a href" not in page.page(report) and "--book URL" in page.page(report)


@pytest.mark.parametrize("book", ["host", "javascript:alert(1)", 'https://a"b', "https://a b"])
def test_what_is_no_address(book):
    with pytest.raises(InputError, match=r"^book: got .* expected an address"):
        command.address(book)
