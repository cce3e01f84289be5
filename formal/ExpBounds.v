(** * Bounds of the exponential function by rational numbers

    For [0 <= x], [exp x] is at least every Taylor polynomial of itself at 0.  Two numbers follow
    that Anchor.v needs: [ln 2 <= 0.6932] and [ln 5 <= 1.6096].  No computation in floating point. *)
From AttnVerify Require Import Sums Tanh.
Require Import Psatz.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

(** [1 + x (1 + x/2 (1 + x/3 (1 + x/4)))] is the Taylor polynomial of degree 4. *)
Lemma exp_ge_taylor_4 x : 0 <= x -> 1 + x + x ^ 2 / 2 + x ^ 3 / 6 + x ^ 4 / 24 <= exp x.
Proof.
have power n k c : derivable_pt_lim (fun y => y ^ n / k) c (INR n * c ^ Nat.pred n / k).
  have -> : INR n * c ^ Nat.pred n / k = INR n * c ^ Nat.pred n * / k + c ^ n * 0 by rewrite /Rdiv; ring.
  apply: (derivable_pt_lim_mult (fun y => y ^ n) (fun _ => / k)); first exact: derivable_pt_lim_pow.
  exact: derivable_pt_lim_const.
have step (g g' : R -> R) : (forall c, derivable_pt_lim g c (g' c)) -> g 0 = 1 ->
    (forall y, 0 <= y -> g' y <= exp y) -> forall y, 0 <= y -> g y <= exp y.
  move=> hg h0 hle y hy; suff : 0 <= exp y - g y by lra.
  apply: (growing_from_zero (g := fun y => exp y - g y) (g' := fun y => exp y - g' y)) => //.
  - by rewrite exp_0 h0; ring.
  - by move=> c; apply: derivable_pt_lim_minus; [exact: derivable_pt_lim_exp | exact: hg].
  - by move=> c [hc _]; have := hle c hc; lra.
have d1 c : derivable_pt_lim (fun y => 1 + y) c (0 + 1).
  by apply: (derivable_pt_lim_plus (fun _ => 1) id); [exact: derivable_pt_lim_const | exact: derivable_pt_lim_id].
have d2 c := derivable_pt_lim_plus _ _ c _ _ (d1 c) (power 2%nat 2 c).
have d3 c := derivable_pt_lim_plus _ _ c _ _ (d2 c) (power 3%nat 6 c).
have d4 c := derivable_pt_lim_plus _ _ c _ _ (d3 c) (power 4%nat 24 c).
have t1 y : 0 <= y -> 1 + y <= exp y by move=> _; exact: exp_ineq1_le.
have t2 := step _ _ d2 _ _; have t3 := step _ _ d3 _ _; have t4 := step _ _ d4 _ _.
have {}t2 : forall y, 0 <= y -> 1 + y + y ^ 2 / 2 <= exp y.
  by apply: t2 => [|y /t1]; rewrite /plus_fct /=; lra.
have {}t3 : forall y, 0 <= y -> 1 + y + y ^ 2 / 2 + y ^ 3 / 6 <= exp y.
  by apply: t3 => [|y /t2]; rewrite /plus_fct /=; lra.
by apply: t4 => [|y /t3]; rewrite /plus_fct /=; lra.
Qed.

Lemma exp_double x r s : 0 <= r -> r <= exp x -> s <= r * r -> s <= exp (2 * x).
Proof.
move=> h0 h hs; have -> : exp (2 * x) = exp x * exp x by rewrite -exp_plus; congr exp; ring.
by apply: Rle_trans hs _; apply: Rmult_le_compat.
Qed.

Lemma exp_06932 : 2 <= exp (6932 / 10000).
Proof.
have h := exp_ge_taylor_4 (x := 1733 / 10000) ltac:(lra).
have h0 : 118922 / 100000 <= exp (1733 / 10000) by move: h; rewrite /=; lra.
have h1 : 141424 / 100000 <= exp (2 * (1733 / 10000)) by apply: exp_double h0 _; lra.
have -> : 6932 / 10000 = 2 * (2 * (1733 / 10000)) by field.
by apply: exp_double h1 _; lra.
Qed.

Lemma exp_16096 : 5 <= exp (16096 / 10000).
Proof.
have h := exp_ge_taylor_4 (x := 2012 / 10000) ltac:(lra).
have h0 : 122286 / 100000 <= exp (2012 / 10000) by move: h; rewrite /=; lra.
have h1 : 149538 / 100000 <= exp (2 * (2012 / 10000)) by apply: exp_double h0 _; lra.
have h2 : 223616 / 100000 <= exp (2 * (2 * (2012 / 10000))) by apply: exp_double h1 _; lra.
have -> : 16096 / 10000 = 2 * (2 * (2 * (2012 / 10000))) by field.
by apply: exp_double h2 _; lra.
Qed.

(** [1 600 000 = 2^9 5^5]. *)
Lemma ln_1600000 : ln 1600000 <= 142868 / 10000.
Proof.
have ln_le_of x y : 0 < x -> x <= exp y -> ln x <= y.
  move=> hx h; rewrite -[X in _ <= X]ln_exp; case: (Rle_lt_or_eq_dec _ _ h) => [hl|->]; last by lra.
  by apply: Rlt_le; apply: ln_increasing.
apply: ln_le_of; first by lra.
have -> : 142868 / 10000 = INR 9 * (6932 / 10000) + INR 5 * (16096 / 10000) by rewrite /=; field.
have pw n a b : 0 <= a -> a <= exp b -> a ^ n <= exp (INR n * b).
  move=> ha h; elim: n => [|n IH]; first by rewrite Rmult_0_l exp_0 /=; lra.
  rewrite S_INR Rmult_plus_distr_r Rmult_1_l exp_plus /= Rmult_comm.
  by apply: Rmult_le_compat => //; exact: pow_le.
have h1 := pw 9%nat 2 (6932 / 10000) ltac:(lra) exp_06932; have h2 := pw 5%nat 5 (16096 / 10000) ltac:(lra) exp_16096.
rewrite exp_plus; have -> : 1600000 = 2 ^ 9 * 5 ^ 5 by ring.
by apply: Rmult_le_compat => //; apply: pow_le; lra.
Qed.
