"""Every column of a report by its definition: plain sums in balls, from what the model computed.

Two models with norms before attention, so that the stream, what attention sees and what it adds are
three different things: a Qwen 3 (grouped keys, rotary, norms of queries and keys, a window in all
layers but the first, no biases) and a vision transformer (full attention, biases). Weights, streams
and attention matrices come from transformers itself, by hooks of this file.

The definition is exact, to 200 bits. The report is off by roundings: ``near`` takes the size of the
figure, the same formula in absolute values all along, and the number m of roundings of a term; then
|error| <= gamma_m size <= 2 m u size (Higham, section 3.1), as everywhere in the package.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flint
import numpy as np
import pytest
import torch
from flint import arb

import attnverify as av
import modelzoo
from attninspect.columns import TABLES

U = 2.0**-53
ROTARY, NORMED = "positions are in the scores (rotary)", "queries and keys are normalized"
MASKED = "some attention weights are zero (a mask, or underflow)"
CASES = {
    "qwen3": {
        "hidden_size": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "intermediate_size": 9,
        "use_sliding_window": True,
        "sliding_window": 3,
        "max_window_layers": 1,
        "attention_dropout": 0.5,
        "rms_norm_eps": 1e-3,
    },
    "vit": {
        "hidden_size": 9,
        "num_hidden_layers": 3,
        "hidden_dropout_prob": 0.5,
        "attention_probs_dropout_prob": 0.5,
        "layer_norm_eps": 1e-3,
        "intermediate_size": 7,
    },
}


def exact(x: Any) -> np.ndarray:
    return np.vectorize(arb, otypes=[object])(np.asarray(x, dtype=float))


def size(x: Any) -> np.ndarray:
    return np.abs(np.asarray(x, dtype=float))


@dataclass
class Frozen:
    """A model at one text, its matrices, gates and sizes of norms held: balls or absolute values.

    layers: arrays by name, as ``read`` gives them; of: ``exact`` or ``size``.
    """

    layers: list[dict[str, Any]]
    of: Any

    def norm(self, layer: dict[str, Any], name: str, y: np.ndarray, bias: bool = False):
        at, (scale, shift), epsilon = exact(layer[name]), layer[name + " affine"], layer["epsilon"]
        d = at.shape[1]
        around = at - at.sum(1)[:, None] / d if layer["centered"] else at
        s = np.array([(x.dot(x) / d + arb(epsilon)).sqrt() for x in around])
        sign = 1 if self.of is size else -1
        y = y + sign * y.sum(1)[:, None] / d if layer["centered"] else y
        y = y / (s.astype(float) if self.of is size else s)[:, None] * self.of(scale)
        return y + self.of(shift) if bias else y

    def head(self, layer: dict[str, Any], h: int, y: np.ndarray) -> np.ndarray:
        V, Z = self.of(layer["W_V"][h]), self.of(layer["W_O"][h])
        return self.of(layer["P"][h]) @ (self.norm(layer, "before", y) @ V) @ Z

    def mlp(self, layer: dict[str, Any], y: np.ndarray) -> np.ndarray:
        inner = self.norm(layer, "between", y) @ self.of(layer["up"]) * self.of(layer["factors"])
        return y + inner @ self.of(layer["down"])

    def paths(self, x: np.ndarray) -> tuple[dict[int, np.ndarray], dict[int, int]]:
        """Sums over paths by length, and how many there are: one path after the other."""
        at = [(0, self.of(x))]
        for layer in self.layers[:-1]:
            after = []
            for length, y in at:
                branches = [(length, y)]
                branches += [(length + 1, self.head(layer, h, y)) for h in range(len(layer["P"]))]
                after += [(length, self.mlp(layer, z)) for length, z in branches]
            at = after
        sums: dict[int, Any] = {}
        for length, y in at:
            sums[length] = sums.get(length, 0) + self.norm(self.layers[-1], "final", y)
        return sums, {length: sum(k == length for k, _ in at) for length in sums}

    def whole(self, x: np.ndarray, bias: bool = False) -> np.ndarray:
        """All paths at once; with ``bias`` the affine maps, which give at 0 what biases carry."""
        y = self.of(x)
        for layer in self.layers[:-1]:
            inner = self.norm(layer, "before", y, bias)
            for h, P in enumerate(layer["P"]):
                values = inner @ self.of(layer["W_V"][h])
                values = values + self.of(layer["b_V"][h]) if bias else values
                y = y + self.of(P) @ values @ self.of(layer["W_O"][h])
            y = y + self.of(layer["b_O"]) if bias else y
            inner = self.norm(layer, "between", y, bias) @ self.of(layer["up"])
            inner = inner + self.of(layer["b_up"]) if bias else inner
            y = y + inner * self.of(layer["factors"]) @ self.of(layer["down"])
            y = y + self.of(layer["b_down"]) if bias else y
        return self.norm(self.layers[-1], "final", y, bias)

    def roundings(self) -> float:
        """Of one path: each map's products and sums, norms as in ``maps.Norm``, quotients, sums."""
        total = 0.0
        for layer in self.layers:
            for name in ("before", "between", "final"):
                if name in layer:
                    x = size(layer[name])
                    v = (x**2).mean(1) if not layer["centered"] else np.asarray(layer[name]).var(1)
                    k = ((x**2).mean(1) / (v + layer["epsilon"])).max()
                    total += 3 * (x.shape[1] + 2) * k + x.shape[1] + 8
            if "P" in layer:
                heads, n, _ = np.shape(layer["P"])
                d, inner = np.shape(layer["up"])
                total += 2 * (d + 1) + n + heads * np.shape(layer["W_V"])[2] + inner + 2 + 10
        return total


def read(model: Any, ids: torch.Tensor, text: int) -> tuple[list[dict[str, Any]], Any, Any]:
    """(layers and end, input, output) of one text, from a float64 run of the model itself."""
    model = model.double().eval()
    model.set_attn_implementation("eager")
    layers, config, seen = list(model.layers), model.config, {}

    def keep(module, args, kwargs, output):
        first = args[0] if args else kwargs["hidden_states"]
        seen[module] = first[text].numpy(), output

    handles = [m.register_forward_hook(keep, with_kwargs=True) for m in model.modules()]
    with torch.no_grad():
        output = model(ids).last_hidden_state[text].numpy()
    for handle in handles:
        handle.remove()
    heads, qwen = config.num_attention_heads, config.model_type == "qwen3"
    groups = config.num_key_value_heads if qwen else heads
    share = [h // (heads // groups) for h in range(heads)]
    found = []
    common = {
        "epsilon": config.rms_norm_eps if qwen else config.layer_norm_eps,
        "centered": not qwen,
    }

    def affine(norm):
        bias = getattr(norm, "bias", None)
        return norm.weight.tolist(), np.zeros(len(norm.weight)) if bias is None else bias.tolist()

    def weight(part):  # (in, out), and the bias
        W = part.weight.detach().numpy().T
        return W, np.zeros(W.shape[1]) if part.bias is None else part.bias.detach().numpy()

    for layer in layers:
        a, mlp = (layer.self_attn if qwen else layer.attention), layer.mlp
        before = layer.input_layernorm if qwen else layer.layernorm_before
        between = layer.post_attention_layernorm if qwen else layer.layernorm_after
        up, down = (mlp.up_proj, mlp.down_proj) if qwen else (mlp.fc1, mlp.fc2)
        (W_Q, _), (W_K, _), (W_V, b_V), (W_O, b_O) = map(
            weight, (a.q_proj, a.k_proj, a.v_proj, a.o_proj)
        )
        gated = seen[mlp.act_fn][1][text].numpy() if qwen else None
        found.append(
            common
            | {
                "stream": seen[before][0],
                "before": seen[before][0],
                "before affine": affine(before),
                "X": seen[before][1][text].numpy(),
                "P": seen[a][1][1][text].numpy(),
                "added": seen[a][1][0][text].numpy(),
                "W_Q": np.split(W_Q, heads, 1),
                "W_K": [np.split(W_K, groups, 1)[g] for g in share],
                "W_V": [np.split(W_V, groups, 1)[g] for g in share],
                "b_V": [np.split(b_V, groups)[g] for g in share],
                "W_O": np.split(W_O, heads, 0),
                "b_O": b_O,
                "between": seen[between][0],
                "between affine": affine(between),
                "up": weight(up)[0],
                "b_up": weight(up)[1],
                "factors": seen[down][0] / seen[up][1][text].numpy() if gated is None else gated,
                "down": weight(down)[0],
                "b_down": weight(down)[1],
                "scale": (W_Q.shape[1] / heads) ** -0.5,
            }
        )
    end = model.norm if qwen else model.layernorm
    found.append(common | {"final": seen[end][0], "final affine": affine(end)})
    return found, seen[before_of(model)][0], output


def before_of(model: Any) -> Any:
    first = model.layers[0]
    return first.input_layernorm if model.config.model_type == "qwen3" else first.layernorm_before


# ---------------------------------------------------------------- the tables


def near(found: float | None, stated: Any, absolute: Any, m: float) -> None:
    """Equal but for m roundings of a figure of this size in absolute values."""
    assert found is not None and abs(found - float(stated)) <= 2 * m * U * float(absolute)


@dataclass
class Case:
    """A model, its two texts as read, and the report on both."""

    name: str
    model: Any
    ids: torch.Tensor
    texts: list[tuple[list[dict[str, Any]], np.ndarray, np.ndarray]]
    report: Any

    @property
    def depth(self) -> int:
        return len(self.texts[0][0]) - 1


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """One key of layer 2 is zero in both models, and another head of it hardly moves anything."""
    model, ids = (
        modelzoo.model(request.param, **CASES[request.param]),
        modelzoo.inputs(request.param, batch=2, tokens=5),
    )
    layer = model.layers[1]
    a = layer.self_attn if request.param == "qwen3" else layer.attention
    with torch.no_grad():
        a.q_proj.weight[0] = 0
        a.o_proj.weight[:, :3] *= 2.0**-7
    report = av.inspect(model.train(), ids)
    with flint.ctx.workprec(200):
        yield Case(request.param, model, ids, [read(model, ids, t) for t in range(2)], report)


def centered(y: np.ndarray, sign: int = -1) -> np.ndarray:
    """Without the tokens' mean; in absolute values (sign 1), with it."""
    return y + sign * y.sum(0)[None] / len(y)


def dot(a: np.ndarray, b: np.ndarray) -> Any:
    return (a * b).sum()


def test_shares_by_length(case):
    """Sums over every single path; what is left beside them and the biases is rounding."""
    parts: list[dict[Any, np.ndarray]] = []
    sizes: list[dict[Any, np.ndarray]] = []
    counts: dict[int, int] = {}
    m = 0.0
    for layers, x, out in case.texts:
        frozen, absolute = Frozen(layers, exact), Frozen(layers, size)
        sums, counts = frozen.paths(x)
        sums["biases"] = frozen.whole(0 * x, bias=True)
        sums["rounding"] = exact(out) - sum(sums.values())
        large = absolute.paths(x)[0]
        large["biases"] = absolute.whole(0 * x, bias=True)
        large["rounding"] = sum(large.values()) + size(out)
        parts, sizes = [*parts, sums], [*sizes, large]
        m = max(m, frozen.roundings() + out.size + 20)
    Y = [exact(out) for *_, out in case.texts]
    R = [centered(y) for y in Y]
    big = [centered(size(y), 1) for y in Y]  # |R Y| at most, and what rounding errors of it follow
    square, whole = (sum(dot(y, y) for y in each) for each in (R, Y))
    of_square = float(sum(dot(y, y) for y in big) / square)
    of_whole = float(sum(dot(size(y), size(y)) for y in Y) / whole)
    rows = {row["length"]: row for row in case.report.lengths}
    assert list(rows) == [*range(case.depth + 1), "biases", "rounding"]
    short = {row["length"]: row for row in av.inspect(case.model, case.ids, brief=True).lengths}
    assert list(short) == list(rows)
    for name, row in rows.items():
        each, large = [s[name] for s in parts], [s[name] for s in sizes]
        share = sum(map(dot, each, R)) / square
        limit = sum(map(dot, large, big)) / square + abs(share) * of_square
        near(row["share"], share, limit, m)
        near(short[name]["share"], share, limit, 2 * m)  # half of the way by transposed maps
        kept = sum(map(dot, each, Y)) / whole
        limit = sum(map(dot, large, map(size, Y))) / whole + abs(kept) * of_whole
        near(row["share_whole"], kept, limit, m)
        norm, limit = (sum(dot(s, s) for s in each) ** 0.5 for each in (each, large))
        near(row["norm"], norm, limit, m)
        assert row["paths"] == counts.get(name)
    rest = [s["rounding"] for s in parts]
    stated = (sum(dot(centered(r), centered(r)) for r in rest) / square).sqrt()
    limit = sum(dot(centered(s["rounding"], 1), centered(s["rounding"], 1)) for s in sizes)
    limit = float(limit / square) ** 0.5
    near(case.report.proof["rounding_of_shares"], stated, limit * (1 + of_square), m)


def distances(x: np.ndarray) -> dict[tuple[int, int], Any]:
    pairs = itertools.combinations(range(len(x)), 2)
    return {(i, k): dot(x[i] - x[k], x[i] - x[k]).sqrt() for i, k in pairs}


def norm(A: np.ndarray) -> float:
    return float(np.linalg.svd(A)[1][0])


def test_layers(case):
    """Stream, what attention sees and what it adds are three arrays; no skip is in the third.

    Singular values of whole matrices, by LAPACK, and those of the report from factors: five steps,
    each backward stable to 10 d u |A| |B| (LAPACK Users' Guide, section 4.9), as in test_inspect.
    """
    rows = {(row["text"], row["layer"]): row for row in case.report.layers}
    assert len(rows) == len(case.report.layers) == 2 * case.depth
    for (text, number), row in rows.items():
        layer = case.texts[text - 1][0][number - 1]
        stream, X, added = (exact(layer[name]) for name in ("stream", "X", "added"))
        n, d = stream.shape
        apart, seen, out = (distances(x) for x in (stream, X, added))
        diameters = [max(x.values(), key=float) for x in (apart, seen, out)]
        assert len({float(x) for x in diameters}) == 3
        for name, x in zip(
            ("stream_diameter", "diameter", "attention_diameter"), diameters, strict=True
        ):
            near(row[name], x, x, d + 4)
        near(row["factor"], diameters[2] / diameters[1], row["factor"], 2 * d + 9)
        for name, first in (("residual", 0), ("residual_of_rest", 1)):
            rest = centered(stream[first:])
            large = centered(size(layer["stream"])[first:], 1)
            whole = dot(stream[first:], stream[first:]).sqrt()
            residual = dot(rest, rest).sqrt() / whole
            room = float(dot(large, large)) ** 0.5 / whole
            near(row[name], residual, room, 2 * n * d + n + 9)
        closest = min(apart, key=lambda pair: float(apart[pair]))
        assert row["nearest"] == [i + 1 for i in closest]
        least = apart[closest] / diameters[0]
        near(row["nearest_distance"], least, least, 2 * d + 9)
        pairs = list(zip(layer["W_V"], layer["W_O"], strict=True))
        v = np.array([norm(V @ Z) for V, Z in pairs])
        product = [norm(Q @ K.T) for Q, K in zip(layer["W_Q"], layer["W_K"], strict=True)]
        c = np.array(product) * layer["scale"] / 4
        pairs += [(Q, K.T) for Q, K in zip(layer["W_Q"], layer["W_K"], strict=True)]
        close = 50 * d * max(norm(A) * norm(B) / norm(A @ B) for A, B in pairs)
        if case.name == "qwen3":
            near(row["bound"], v.sum(), v.sum(), close)
            assert row["threshold"] is None and row["over_threshold"] is None
            assert row["why_no_threshold"] == f"{MASKED}; {ROTARY}; {NORMED}"
            continue
        assert row["why_no_threshold"] is None
        near(row["bound"], (v * np.tanh(c * row["diameter"] ** 2)).sum(), row["bound"], 2 * close)
        low, high = 0.0, row["diameter"]
        for _ in range(100):
            middle = (low + high) / 2
            below = (v * np.tanh(c * middle**2)).sum() < 1
            low, high = (middle, high) if below else (low, middle)
        slope = (v * 2 * c * low**2 / np.cosh(c * low**2) ** 2).sum()  # of log F in log size
        near(row["threshold"], low, low, close * (1 / 2 + 1 / slope) + 9)
        over = float(diameters[1]) / low
        near(row["over_threshold"], over, over, close * (1 / 2 + 1 / slope) + d + 14)


def deficit(D: float) -> float:
    """max over 0 < s < 1 of the relative entropy of weights (s e^D, 1 - s) to (s, 1 - s)."""

    def K(s: float) -> float:
        total = 1 - s + s * math.exp(D)
        return s * math.exp(D) / total * D - math.log(total)

    low, high = 0.0, 1.0
    for _ in range(200):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (a, high) if K(a) < K(b) else (low, b)
    return K(low)


def test_heads_by_their_attention(case):
    """Means over the rows of both texts with two keys or more; a window hides the first token."""
    n = len(case.texts[0][1])
    for row in case.report.heads:
        found: dict[str, list[float]] = {
            "entropy": [],
            "entropy_floor": [],
            "sink": [],
            "itself": [],
        }
        for layers, *_ in case.texts:
            P = layers[row["layer"] - 1]["P"][row["head"] - 1].tolist()
            window = 3 if case.name == "qwen3" and row["layer"] > 1 else n
            for i in range(n):
                keys = range(max(0, i - window + 1), i + 1) if case.name == "qwen3" else range(n)
                assert all((P[i][j] > 0) == (j in keys) for j in range(n))
                if len(keys) == 1:
                    continue
                p = [P[i][j] for j in keys]
                most = math.log(len(p))
                found["entropy"].append(-sum(x * math.log(x) for x in p) / most)
                D = math.log(max(p) / min(p))
                found["entropy_floor"].append(max(0.0, 1 - deficit(D) / most))
                found["itself"].append(P[i][i])
                if i > 0 and 0 in keys:
                    found["sink"].append(P[i][0])
        assert len(found["sink"]) < len(found["itself"]) or case.name == "vit" or row["layer"] == 1
        for name, values in found.items():
            # n terms -p log p below 1/e, or logarithms below 30 and a constant below D + 2
            near(row[name], sum(values) / len(values), 40 / math.log(2), 2 * n + 30)


def test_heads_by_their_output(case):
    """Projection on what attention adds, and size beside it, means removed, over both texts."""
    for row in case.report.heads:
        inner = square = total = within = large = around = 0
        for layers, *_ in case.texts:
            layer, h = layers[row["layer"] - 1], row["head"] - 1
            V, Z = layer["W_V"][h], layer["W_O"][h]
            own = exact(layer["P"][h]) @ exact(layer["X"]) @ exact(V) @ exact(Z)
            big = layer["P"][h] @ size(layer["X"]) @ size(V) @ size(Z)
            own, whole = centered(own), centered(exact(layer["added"]))
            big, bigger = centered(big, 1), centered(size(layer["added"]), 1)
            inner, within = inner + dot(own, whole), within + dot(big, bigger)
            square, large = square + dot(own, own), large + dot(big, big)
            total, around = total + dot(whole, whole), around + dot(bigger, bigger)
        n, d = np.shape(layer["X"])
        m, ratio = 2 * d + 2 * n + n * d + 20, float(around / total)
        part, moves = inner / total, (square / total).sqrt()
        near(row["part"], part, within / total + abs(part) * ratio, m)
        near(row["moves"], moves, float(large / total) ** 0.5 + moves * ratio, m)
        assert row["gate"] is None  # those of gated heads are in test_families_gated.py


def test_heads_by_their_matrices(case):
    """Traces, norms and rank of W_Q W_K^T and W_V W_O as whole matrices."""
    ranks = set()
    for row in case.report.heads:
        layer, h = case.texts[0][0][row["layer"] - 1], row["head"] - 1
        Q, K, V, Z = (layer[name][h] for name in ("W_Q", "W_K", "W_V", "W_O"))
        W, big = exact(Q) @ exact(K).T, size(Q) @ size(K).T
        d, k = Q.shape
        m = 2 * (d + k) * k + 20
        t, s, f = W.trace(), (W @ W).trace(), dot(W, W)
        # errors of trace, tr W^2 and |W|_F^2, as all their terms were positive
        t_off, s_off = float(big.trace()), float((big @ big).trace())
        f_off = float(((size(Q).T @ size(Q)) * (size(K).T @ size(K))).sum())
        assert abs(s) > 100 * m * U * s_off
        if s > 0:
            xi = t / s.sqrt()
            near(row["xi"], xi, t_off / s.sqrt() + abs(xi) * s_off / s, m)
        else:
            assert row["xi"] is None
        xi = t / f.sqrt()
        near(row["xi_frobenius"], xi, t_off / f.sqrt() + abs(xi) * f_off / f, m)
        symmetry, off = s / f, s_off / f + abs(s / f) * f_off / f
        near(row["symmetry"], symmetry, off, m)
        skew = (dot(W - W.T, W - W.T) / 4 / f).sqrt()
        near(row["asymmetry"], skew, off / skew, m)
        assert row["rank"] == np.linalg.matrix_rank(Q @ K.T)
        ranks.add(row["rank"])
        for name, A, B in (("query_key_norm", Q, K.T), ("value_norm", V, Z)):
            near(row[name], norm(A @ B), norm(A) * norm(B), 50 * d)
    assert ranks == {k, k - 1}, "one head has a query of zero"
    assert {row["xi"] is None for row in case.report.heads} == {True, False}


def ranks(values: list[float]) -> list[float]:
    """From 0, no two equal."""
    assert len({round(math.log(x), 9) for x in values if x}) == len(values)
    return [float(sum(y < x for y in values)) for x in values]


def test_rollout(case):
    """Products of matrices, and every input token alone through the frozen model."""
    report = av.inspect(case.model, case.ids[:1])
    layers, x, _ = case.texts[0]
    n = len(x)
    frozen, absolute = Frozen(layers, exact), Frozen(layers, size)
    product = np.eye(n)
    for layer in layers[:-1]:
        mean = sum(layer["P"]) / len(layer["P"])
        product = (mean + np.eye(n)) / 2 @ product
    alone = [np.where(np.arange(n)[:, None] == j, x, 0.0) for j in range(n)]
    true = np.array([[float(dot(t, t).sqrt()) for t in frozen.whole(y)] for y in alone]).T
    off = np.array([[dot(t, t) ** 0.5 for t in absolute.whole(y)] for y in alone]).T
    found = report.rollout
    correlations, same = [], []
    for i in range(n):
        some = [j for j in range(n) if product[i, j] > 0]
        if len(some) < 2:
            continue
        a, b = (np.array(ranks([float(y[i, j]) for j in some])) for y in (product, true))
        correlations.append(np.corrcoef(a, b)[0, 1])
        same.append(product[i].argmax() == true[i].argmax())
    near(found["rank_correlation"], np.mean(correlations), 1, 10 * n)
    assert found["same_top"] == np.mean(same) and found["tokens"] == n
    near(found["own_rollout"], product.diagonal().mean(), 1, case.depth * (2 * n + 9))
    own = np.mean(true.diagonal() / true.sum(1))
    near(found["own_true"], own, 2 * np.max(off.sum(1) / true.sum(1)), frozen.roundings() + 2 * n)


def test_every_column_is_defined_above():
    """A column that is added to a report is to be added here, or in the test of a number."""
    names = [Path(__file__).name, *(f"test_{n}.py" for n in ("scalar", "path_table", "ablate"))]
    own, *rest = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in names)
    number = "".join(rest)
    for name, columns in TABLES.items():
        text = number if name.startswith("scalar") else own
        for column in columns.keys() - {"text", "layer", "head", "length"}:
            assert f'"{column}"' in text, f"{column} of {name}"
