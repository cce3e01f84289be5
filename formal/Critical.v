(** * The critical oscillation

    [critical] is the positive root of [exp x = 1 + 2 x], the number 1.25643... up to which the
    claims about the composite value allow the rows of scores to oscillate.  Proved here: it exists
    (intermediate values), it is the only positive root, and it lies between 1.25643 and 1.25644. *)
From AttnVerify Require Import Sums Tanh ExpBounds.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Lemma critical_exists : { x : R | / 2 <= x <= 2 /\ exp x - (1 + 2 * x) = 0 }.
Proof.
apply: (IVT (fun x => exp x - (1 + 2 * x))).
- by reg.
- by lra.
- have -> : 1 + 2 * / 2 = 2 by field.
  have h : exp (/ 2) * exp (/ 2) <= 3 by rewrite -exp_plus (_ : / 2 + / 2 = 1);
    [exact: exp_le_3 | field].
  by have := exp_pos (/ 2); nra.
- have h1 := exp_ineq1_le (/ 2).
  have -> : exp 2 = (exp (/ 2) * exp (/ 2)) * (exp (/ 2) * exp (/ 2)).
    by rewrite -!exp_plus; congr exp; field.
  have h2 : 9 / 4 <= exp (/ 2) * exp (/ 2) by nra.
  by nra.
Qed.

Definition critical : R := proj1_sig critical_exists.

Lemma critical_root : exp critical = 1 + 2 * critical.
Proof. by rewrite /critical; case: critical_exists => x [h1 h2] /=; lra. Qed.
Lemma critical_bounds : / 2 <= critical <= 2.
Proof. by rewrite /critical; case: critical_exists => x [h1 h2] /=. Qed.

(** The chord from 0 to [b] lies above the exponential function. *)
Lemma below_chord a b : 0 < a < b -> exp b <= 1 + 2 * b -> exp a < 1 + 2 * a.
Proof.
move=> hab hb.
have t1 : exp a * (1 + - a) < exp 0.
  have e : exp a * exp (- a) = exp 0 by rewrite -exp_plus; congr exp; ring.
  by rewrite -e; apply: Rmult_lt_compat_l; [exact: exp_pos | apply: exp_ineq1; lra].
have t2 : exp a * (1 + (b - a)) < exp b.
  have e : exp a * exp (b - a) = exp b by rewrite -exp_plus; congr exp; ring.
  by rewrite -e; apply: Rmult_lt_compat_l; [exact: exp_pos | apply: exp_ineq1; lra].
rewrite exp_0 in t1; apply: (Rmult_lt_reg_l b); first by lra.
have h1 := Rmult_lt_compat_l (b - a) _ _ ltac:(lra) t1.
have h2 := Rmult_lt_compat_l a _ _ ltac:(lra) t2.
have h3 := Rmult_le_compat_l a _ _ ltac:(lra) hb.
by lra.
Qed.

(** The positive root is unique, so that [critical] is the number of the claims. *)
Theorem critical_unique x : 0 < x -> exp x = 1 + 2 * x -> x = critical.
Proof.
move=> hx h; have hc := critical_bounds; have hr := critical_root.
case: (Rtotal_order x critical) => [hlt|[//|hlt]].
- by have := below_chord (conj hx hlt); lra.
- have hc0 : 0 < critical < x by lra.
  by have := below_chord hc0; lra.
Qed.

Theorem critical_value : 125643 / 100000 < critical < 125644 / 100000.
Proof.
have hc := critical_bounds; have hr := critical_root; split.
- apply: Rnot_le_lt => h; have hb := exp_below.
  case: (Rle_lt_or_eq_dec _ _ h) => [hlt|e]; last by rewrite -e in hb; lra.
  have h0 : 0 < critical < 125643 / 100000 by lra.
  by have := below_chord h0; lra.
- apply: Rnot_le_lt => h; have hb := exp_above.
  case: (Rle_lt_or_eq_dec _ _ h) => [hlt|e]; last by rewrite e in hb; lra.
  have h0 : 0 < 125644 / 100000 < critical by lra.
  by have := below_chord h0; lra.
Qed.
