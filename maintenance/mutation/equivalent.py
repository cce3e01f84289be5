"""Mutants that are no errors: what the changed source computes is as right as what it replaces."""

#: Name of a mutant to the reason why nothing can tell it from the original.
EQUIVALENT: dict[str, str] = {
    "mathematics.center.Program.__init__: operator: n - 1 -> (n) + (1)": (
        "another kink to start with; a program adds those that are missing"
    ),
    "mathematics.center.Program.__init__: operator: n - 1 -> (n) + (1) (2)": (
        "a rank beyond the last token is the last token's"
    ),
    "mathematics.center.Program.__init__: dropped term: n - 1 -> (n)": (
        "another kink to start with; a program adds those that are missing"
    ),
    "mathematics.center.Program.__init__: dropped term: n - 1 -> (n) (2)": (
        "a rank beyond the last token is the last token's"
    ),
    "mathematics.center.Program.minimize: axis: -1 -> -2": (
        "neighbors of the missing kinks save programs; the kinks themselves close the bound"
    ),
    "mathematics.chisquare.distribution: constant: 2 -> 3": (
        "weights and x in another unit; all bounds are the same in every unit"
    ),
    "mathematics.chisquare.cubic: operator: one * 3 / 2 + 0 * r -> (one * 3 / 2) - (0 * r)": (
        "0 is added for its shape"
    ),
    "mathematics.eigenspectrum.effective_rank: neighbor: "
    "squared_norm(squared) -> square_trace(squared)": "the square of a symmetric W is symmetric",
    "mathematics.heads.wide_family_distinct: operator: 0 * root -> (0) / (root)": "both are 0",
    "mathematics.localization.probability: axis: -1 -> -2": "w_qk is square by then",
    "mathematics.softmax.critical_oscillation: condition: "
    "flint.arb(1) if like is None else ops.constant(1, like) -> ops.constant(1, like)": (
        "a constant like None is a ball"
    ),
    "mathematics.deviations._probabilities: constant: 0 -> 1": (
        "stands in where a logit is large, and there another expression is taken"
    ),
    "attninspect.findings.dumps: constant: 1 -> 2": "the indentation of a JSON file",
    "attninspect.forward._with_own_keys: axis: -1 -> -2 (3)": "the mask is square by then",
    "attninspect.forward._device: constant: 0 -> 1": "it is tried with one number in place of none",
    "attninspect.reconstruction.Streams.through: dropped function: self.rest.abs() -> self.rest": (
        "the rest is a rounding error, so its part of the bound is a rounding of a rounding"
    ),
    "attninspect.reconstruction.Streams.through_block: dropped function: "
    "each.rest.abs() -> each.rest": (
        "the rest is a rounding error, so its part of the bound is a rounding of a rounding"
    ),
    "experiments.architectures.sizes: constant: 0.0 -> 0.01": (
        "the size of tokens that are unknown, which is not read"
    ),
    "experiments.trained_encoder.spectra.sample: constant: 1 -> 2": (
        "one more layer of the encoder is measured again"
    ),
    "experiments.phase_diagram.again: constant: 0 -> 1": (
        "every row of a table has the same number of sequences"
    ),
    "experiments.phase_diagram.spectrum_shape: operator: q - q.mean() -> (q) + (q.mean())": (
        "the quantiles are symmetric, so their mean is a rounding error"
    ),
    "experiments.phase_diagram.spectrum_shape: dropped term: q - q.mean() -> (q)": (
        "the quantiles are symmetric, so their mean is a rounding error"
    ),
    "experiments.locater._configuration: constant: 0 -> 1": "all replicas read the same words",
    "experiments.locater.language.predict: constant: 0 -> 1": (
        "all parameters of the model that is drawn are replaced"
    ),
    "experiments.locater.language.LanguageModel._log_places: constant: 1e-30 -> 1.01e-30": (
        "divides an entropy of 0"
    ),
    "checking.sampling: "
    "torch.isfinite(left) & torch.isfinite(right) & -> torch.isfinite(right) &": (
        "a left side that overflows gives an infinite ratio, which is not decided"
    ),
    "experiments.shortpaths._one: constant: 0 -> 1": (
        "the tokens of a test are counted, and all networks are tested on as many"
    ),
    "experiments.shortpaths.longest: constant: 0 -> 1": (
        "without rows no number of steps is compared with any row"
    ),
}
