(** * Entrywise perturbation of a row of softmax

    Claim softmax.perturbation.  If the logits [r] change by [e] and [D = osc e] is at most
    [critical], every weight [p_j] becomes a number between [(1 - D) p_j] and [(1 + 2 D) p_j]; the
    lower bound needs no condition.  Weights change at most by the factors [exp D] and [exp (- D)]
    ([weight_growth]), and [exp D <= 1 + 2 D] holds exactly up to [critical]. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Critical MovedMass.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Lemma exp_le_up_to_critical D : 0 <= D <= critical -> exp D <= 1 + 2 * D.
Proof.
move=> [h0 h1]; have hr := critical_root.
case: (Rle_lt_or_eq_dec _ _ h1) => [hlt|->]; last by lra.
case: (Rle_lt_or_eq_dec _ _ h0) => [hgt|<-]; last by rewrite exp_0; lra.
by have := below_chord (conj hgt hlt); lra.
Qed.

Theorem perturbation :
  (forall (I : finType) (r e : I -> R) (j : I),
     (1 - osc e) * softmax r j <= softmax (fun i => r i + e i) j /\
     (osc e <= critical -> softmax (fun i => r i + e i) j <= (1 + 2 * osc e) * softmax r j)) /\
  (0 < critical /\ exp critical = 1 + 2 * critical /\
   125643 / 100000 < critical < 125644 / 100000 /\
   forall x, 0 < x -> exp x = 1 + 2 * x -> x = critical).
Proof.
split; last first.
  split; first by have := critical_bounds; lra.
  split; first exact: critical_root.
  by split; [exact: critical_value | exact: critical_unique].
move=> I r e j; have hp := softmax_gt0 r j; have hD := osc_ge0 e; split.
- have h := weight_growth (fun i => r i + e i) (fun i => - e i) j.
  have er : (fun i => r i + e i + - e i) = r.
    by apply: functional_extensionality => i; ring.
  have eo : osc (fun i => - e i) <= osc e.
    by apply: osc_lub => // i k; have := osc_ub e k i; lra.
  rewrite er in h; have hP := softmax_gt0 (fun i => r i + e i) j.
  have h1 : softmax r j <= exp (osc e) * softmax (fun i => r i + e i) j.
    by apply: Rle_trans h _; apply: Rmult_le_compat_r; [lra | exact: exp_le].
  have h2 := exp_ineq1_le (- osc e); have h3 := exp_pos (- osc e).
  have h4 : exp (- osc e) * softmax r j <= softmax (fun i => r i + e i) j.
    have := Rmult_le_compat_l _ _ _ (Rlt_le _ _ h3) h1.
    by rewrite -Rmult_assoc -exp_plus Rplus_opp_l exp_0 Rmult_1_l.
  by apply: Rle_trans h4; apply: Rmult_le_compat_r; lra.
- move=> hc; apply: Rle_trans (weight_growth r e j) _; apply: Rmult_le_compat_r; first by lra.
  by apply: exp_le_up_to_critical.
Qed.

(** ** Near neighbor: [1 + 1.99 D]

    Two tokens, the first with a weight of 1/1001, whose logit grows by [critical]. *)
Theorem not_perturbation_199 :
  ~ (forall (I : finType) (r e : I -> R) (j : I), osc e <= critical ->
       softmax (fun i => r i + e i) j <= (1 + 199 / 100 * osc e) * softmax r j).
Proof.
move=> h; have hc := critical_value; have hr := critical_root.
have ho : osc (two critical 0) = critical by rewrite osc_two Rabs_pos_eq; lra.
have := h _ (two 0 (ln 1000)) (two critical 0) true; rewrite ho => /(_ (Rle_refl _)).
rewrite /softmax !big_bool /= Rplus_0_l Rplus_0_r exp_0 exp_ln; last by lra.
rewrite hr; move: critical hc {h hr ho} => c hc h.
have h1 : (1 + 2 * c) * 1001 <= (1 + 199 / 100 * c) * (1 + 2 * c + 1000).
  apply: (Rmult_le_reg_r (/ (1 + 2 * c + 1000) * / 1001)).
    by apply: Rmult_lt_0_compat; apply: Rinv_0_lt_compat; lra.
  have e1 : (1 + 2 * c) * 1001 * (/ (1 + 2 * c + 1000) * / 1001) = (1 + 2 * c) / (1 + 2 * c + 1000).
    by field; lra.
  have e2 : (1 + 199 / 100 * c) * (1 + 2 * c + 1000) * (/ (1 + 2 * c + 1000) * / 1001)
    = (1 + 199 / 100 * c) * (1 / (1 + 1000)) by field; lra.
  by rewrite e1 e2.
by nra.
Qed.
