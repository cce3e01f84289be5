"""A report in sentences: what was proved, and what stands out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attninspect.findings import Findings
from attninspect.path_table import placed, sentences
from attnverify.support.vocabulary import counted

Row = dict[str, Any]

SILENT = 0.05  # of the norm of a layer's attention
SHOWN = 0.0005  # what shows in a share of three digits


def summary(report: Findings) -> list[str]:
    """The report in lines; the first says what was proved."""
    return [proved(report), *found(report), *scalar_sentences(report), *report.notes]


def proved(report: Findings) -> str:
    p, m = report.proof, report.model
    return (
        f"Reconstruction: {counted(p['steps'], 'step')} of {counted(m['layers'], 'layer')} and "
        f"{counted(m['heads'], 'head')} compared with the model's own forward pass in "
        f"{m['dtype']}, largest error over its derived bound {p['largest_error_over_bound']:.3g} "
        f"(at most 1), at {p['at']}. All paths and biases together are the output up to "
        f"{p['rounding_of_output']:.1e} of it, the model's own rounding.{undecided(p)}"
    )


def undecided(proof: Mapping[str, Any]) -> str:
    """A sentence on steps whose comparison decides nothing; empty where there are none."""
    count = proof["deciding_nothing"]
    if not count:
        return ""
    return (
        f" But nothing is decided by {count} of the steps: the model's own values vanish there, or "
        "are no larger than what rounding and underflow may change."
    )


def found(report: Findings) -> Iterator[str]:
    """Sentences on what stands out in the tables."""
    yield _lengths(report.lengths, report.proof["rounding_of_shares"])
    yield from _layers(report.layers)
    if report.heads:
        yield from _heads(report.heads)
    if report.rollout:
        yield _rollout(report.rollout)


def top_length(
    lengths: Iterable[Mapping[str, Any]], rounding: float | None
) -> Mapping[str, Any] | None:
    """The row of the length with the largest share; None where no share is more than rounding.

    rounding: the most that the model's rounding may be of a share.
    """
    paths = [row for row in lengths if row["paths"] is not None and row["share"] is not None]
    top = max(paths, key=lambda row: row["share"], default=None)
    return None if top is None or top["share"] <= (rounding or 0.0) else top


def named(report: Findings) -> list[tuple[int, int]]:
    """The heads that the sentences name, silent ones aside, then those of all layers they name."""
    heads = [*_largest(report.scalar_heads, "direct"), *_end(report.heads, "sink", max)]
    ends = [*_end(report.layers, "residual"), *_end(report.layers, "over_threshold")]
    ends += [row for rows in _unbounded(report.layers).values() for row in _end(rows, "bound", max)]
    found = [(row["layer"], row["head"]) for row in heads]
    for layer in [row["layer"] for row in heads + ends]:
        found += [(layer, row["head"]) for row in report.heads if row["layer"] == layer]
    return list(dict.fromkeys(found))


def _end(rows: Iterable[Row], name: str, which: Callable[..., Row] = min) -> list[Row]:
    """The row where a column is smallest, or largest; none where it has no value."""
    known = [row for row in rows if row[name] is not None]
    return [which(known, key=lambda row: row[name])] if known else []


def _unbounded(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows without a threshold, by reason."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row["why_no_threshold"] is not None:
            found.setdefault(row["why_no_threshold"], []).append(row)
    return found


def _lengths(rows: list[dict[str, Any]], rounding: float | None) -> str:
    paths = [row for row in rows if row["paths"] is not None and row["share"] is not None]
    if not paths:
        return (
            "The tokens of the output are all equal, up to rounding: shares without their mean are "
            "undefined."
        )
    top = top_length(rows, rounding)
    if top is None:
        return (
            "No length has a share above what the model's rounding may be of it, "
            f"{rounding or 0.0:.2g} of what distinguishes the tokens of the output."
        )
    total = sum(row["paths"] for row in paths)
    longest = paths[len(paths) // 2 + 1 :]
    share = sum(row["share"] for row in longest)
    of_paths = sum(row["paths"] for row in longest) / total
    biases = next(row["share"] for row in rows if row["length"] == "biases")
    line = (
        f"Paths of length {top['length']} carry the largest share of what distinguishes the "
        f"tokens of the output, {top['share']:.3f}; biases carry {biases:.3f}"
    )
    if longest:
        line += (
            f"; lengths from {longest[0]['length']} on, {of_paths:.1%} of all paths, {share:.3f}"
        )
    if rounding is not None and rounding >= SHOWN:
        line += f"; the model's rounding may be {rounding:.2g} of each"
    return line + "."


def _layers(rows: list[dict[str, Any]]) -> Iterator[str]:
    bounded = [row for row in rows if row["over_threshold"] is not None]
    for low in _end(bounded, "over_threshold"):
        below = sum(row["over_threshold"] < 1 for row in bounded)
        yield (
            f"The sharp theorem applies to {len(bounded)} of {len(rows)} inputs of layers, with "
            f"{counted(below, 'input')} below the threshold of collapse; the nearest is "
            f"{low['over_threshold']:.3g} times it (layer {low['layer']})."
        )
    for reason, where in _unbounded(rows).items():
        inputs = f"{counted(len(where), 'input')} of layers: {reason}"
        if where[0]["bound"] is None:
            yield f"No threshold and no bound at {inputs}."
        for most in _end(where, "bound", max):
            yield (
                f"No threshold at {inputs}. There attention multiplies the diameter by at most "
                f"{most['bound']:.3g} (layer {most['layer']}), whatever the tokens are."
            )
    for low in _end(rows, "residual"):
        rest = low["residual_of_rest"]
        beside = "" if rest is None else f" ({rest:.3g} without the first token)"
        yield (
            f"Tokens are nearest to collapse where layer {low['layer']} begins: "
            f"relative residual {low['residual']:.3g}{beside}."
        )


def _heads(rows: list[dict[str, Any]]) -> Iterator[str]:
    measured = [row for row in rows if row["moves"] is not None]
    silent = [row for row in measured if row["moves"] < SILENT]
    if not measured:
        yield "What attention adds is equal for all tokens, up to rounding: no head stands out."
    else:
        yield (
            f"{len(silent)} of {len(measured)} heads could be silent on these tokens: their output "
            f"is less than {SILENT:.0%} of their layer's attention"
            + (": " if silent else "")
            + ", ".join(f"{row['layer']}.{row['head']}" for row in silent[:12])
            + (", ..." if len(silent) > 12 else "")
            + "."
        )
    sinks = [row for row in rows if row["sink"] is not None]
    for most in _end(sinks, "sink", max):
        half = sum(row["sink"] > 0.5 for row in sinks)
        yield (
            f"More than half of the attention is to the first token in {half} of {len(sinks)} "
            f"heads; the most is {most['sink']:.3f} (layer {most['layer']}, head {most['head']})."
        )


NAMED = 3  # of the largest parts


def scalar_sentences(report: Findings) -> Iterator[str]:
    """What the number is, what else the model predicts there, and its largest parts."""
    s = report.scalar
    if s is None:
        return
    rounding = next(row["value"] for row in report.scalar_lengths if row["length"] == "rounding")
    yield (
        f"The number: {s['name']}, at token {placed(s['position'], s['word'])}, is "
        f"{s['value']:.4g} in the model. Its parts by path length, by head, by layer and by "
        f"input token, with {rounding:+.1e} of the model's own rounding, add up to it within a "
        f"derived bound of {s['bound']:.1e}."
    )
    if s["top"]:
        listed = (f"{_called(each)} {each['logit']:.4g}" for each in s["top"])
        yield f"The largest logits there, of {s['of']}: {', '.join(listed)}."
    else:
        yield "No logits stand beside it: a coordinate is no output of a head."
    tokens = [row for row in report.scalar_tokens if isinstance(row["token"], int)]
    biases = next(row["value"] for row in report.scalar_tokens if row["token"] == "biases")
    listed = (
        f"{placed(row['token'], row['word'])} {row['value']:+.4g}"
        for row in _largest(tokens, "value")
    )
    yield f"Of the input tokens most comes from {', '.join(listed)}; from biases {biases:+.4g}."
    listed = (
        f"{row['layer']}.{row['head']} {row['direct']:+.4g}"
        for row in _largest(report.scalar_heads, "direct")
    )
    yield (
        f"Of the heads most comes from {', '.join(listed)}, directly; what passes no head gives "
        f"{report.scalar_lengths[0]['value']:+.4g}."
    )
    yield from sentences(s, report.scalar_paths)
    if "ablation" in s:
        yield _ablated(report.scalar_heads, s["ablation"], max(s["bound"], abs(rounding)))


def _ablated(rows: list[dict[str, Any]], facts: Mapping[str, Any], rounding: float) -> str:
    """What the number loses without each head, against the shares of the heads.

    What is lost up to ``rounding`` counts as nothing.
    """
    lost = [row["lost"] if abs(row["lost"]) > rounding else 0.0 for row in rows]
    through, direct = ([row[name] for row in rows] for name in ("through", "direct"))
    off = [each - share for each, share in zip(lost, through, strict=True)]
    far = sorted(range(len(rows)), key=lambda i: -abs(off[i]))[:NAMED]
    listed = (
        f"{rows[i]['layer']}.{rows[i]['head']} (lost {lost[i]:+.4g}, share {through[i]:+.4g})"
        for i in far
    )
    flips = sum(each * share < 0 for each, share in zip(lost, through, strict=True))
    ranks = f"{_ranked(lost, through)} with the share through, {_ranked(lost, direct)} with direct"
    return (
        f"Each head removed ({facts['kind']}) and the model run again, "
        f"{counted(facts['rows'], 'text')} in {counted(facts['passes'], 'forward pass')}: rank "
        f"correlation of what is lost {ranks}. Lost and share have opposite signs at {flips} of "
        f"{len(rows)} heads; they differ most at {', '.join(listed)}. A share holds "
        "later attention, gates and norms and counts from 0; here they move, and what is lost "
        "counts from what stands in the head's place."
    )


def _ranked(a: list[float], b: list[float]) -> str:
    """Spearman's correlation in words."""
    if min(len(set(a)), len(set(b))) < 2:
        return "not defined"
    from scipy.stats import spearmanr

    found: Any = spearmanr(a, b)
    return f"{found.statistic:.2f}"


def _called(entry: Mapping[str, Any]) -> str:
    return f"#{entry['index']}" if entry["name"] is None else repr(entry["name"])


def _largest(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: -abs(row[name]))[:NAMED]


def _rollout(found: dict[str, Any]) -> str:
    if found["rank_correlation"] is None:
        return (
            "Attention rollout is compared with nothing: no token of the output sees two tokens of "
            "the input and has parts of them that do not vanish."
        )
    return (
        f"Attention rollout against the true parts of single tokens: rank correlation "
        f"{found['rank_correlation']:.2f}; both give the most to the same input token in "
        f"{found['same_top']:.0%} of rows; a token keeps {found['own_true']:.2f} of its own place "
        f"in truth, {found['own_rollout']:.2f} by rollout."
    )
