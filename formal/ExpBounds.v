(** * Bounds of the exponential function by rational numbers

    For [0 <= x], [exp x] is at least every Taylor polynomial of itself at 0.  Two numbers follow
    that Anchor.v needs, [ln 2 <= 0.6932] and [ln 5 <= 1.6096], and two that Critical.v needs:
    [exp 1.25643 < 3.51286] and [exp 1.25644 > 3.51288].  No computation in floating point. *)
From AttnVerify Require Import Sums Tanh.
Require Import Psatz.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

(** [1 + x (1 + x/2 (1 + x/3 (1 + x/4)))] is the Taylor polynomial of degree 4. *)
Lemma exp_ge_taylor_4 x : 0 <= x -> 1 + x + x ^ 2 / 2 + x ^ 3 / 6 + x ^ 4 / 24 <= exp x.
Proof.
have power n k c : derivable_pt_lim (fun y => y ^ n / k) c (INR n * c ^ Nat.pred n / k).
  have -> : INR n * c ^ Nat.pred n / k = INR n * c ^ Nat.pred n * / k + c ^ n
    * 0 by rewrite /Rdiv; ring.
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
  by apply: (derivable_pt_lim_plus (fun _ => 1) id);
    [exact: derivable_pt_lim_const | exact: derivable_pt_lim_id].
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
have h1 := pw 9%nat 2 (6932 / 10000) ltac:(lra) exp_06932;
  have h2 := pw 5%nat 5 (16096 / 10000) ltac:(lra) exp_16096.
rewrite exp_plus; have -> : 1600000 = 2 ^ 9 * 5 ^ 5 by ring.
by apply: Rmult_le_compat => //; apply: pow_le; lra.
Qed.

(** ** The exponential at 1.25643 and at 1.25644 *)
Lemma exp_opp_ge y : 0 <= y -> 1 - y + y ^ 2 / 2 - y ^ 3 / 6 <= exp (- y).
Proof.
have power n k c : derivable_pt_lim (fun y => y ^ n / k) c (INR n * c ^ Nat.pred n / k).
  have -> : INR n * c ^ Nat.pred n / k = INR n * c ^ Nat.pred n * / k + c ^ n
    * 0 by rewrite /Rdiv; ring.
  apply: (derivable_pt_lim_mult (fun y => y ^ n) (fun _ => / k)); first exact: derivable_pt_lim_pow.
  exact: derivable_pt_lim_const.
have dopp c : derivable_pt_lim (fun y => - y) c (- 1).
  by apply: (derivable_pt_lim_opp id); exact: derivable_pt_lim_id.
have dexp c : derivable_pt_lim (fun y => exp (- y)) c (exp (- c) * - 1).
  by apply: (derivable_pt_lim_comp (fun y => - y) exp); [exact: dopp | exact: derivable_pt_lim_exp].
have d1 c : derivable_pt_lim (fun y => 1 + - y) c (0 + - 1).
  by apply: (derivable_pt_lim_plus (fun _ => 1)); [exact: derivable_pt_lim_const | exact: dopp].
have d2 c := derivable_pt_lim_plus _ _ c _ _ (d1 c) (power 2%nat 2 c).
have d3 c := derivable_pt_lim_minus _ _ c _ _ (d2 c) (power 3%nat 6 c).
have t2 x : 0 <= x -> exp (- x) <= 1 - x + x ^ 2 / 2.
  move=> hx; have h := growing_from_zero (z := x) hx _
    (fun c => derivable_pt_lim_minus _ _ c _ _ (d2 c) (dexp c)) _.
  have := h; rewrite /minus_fct /plus_fct /= => {}h.
  have : 0 <= 1 + - x + x * (x * 1) / 2 - exp (- x); last by lra.
  apply: h => [|c [hc _]]; first by rewrite Ropp_0 exp_0; field.
  by have := exp_ineq1_le (- c); lra.
move=> hy; have h := growing_from_zero (z := y) hy _
  (fun c => derivable_pt_lim_minus _ _ c _ _ (dexp c) (d3 c)) _.
have := h; rewrite /minus_fct /plus_fct /= => {}h.
have : 0 <= exp (- y) - (1 + - y + y * (y * 1) / 2 - y * (y * (y * 1)) / 6); last by lra.
apply: h => [|c [hc _]]; first by rewrite Ropp_0 exp_0; field.
by have := t2 c hc; rewrite /=; lra.
Qed.

Lemma exp_below : exp (125643 / 100000) < 351286 / 100000.
Proof.
have h := exp_opp_ge (y := 125643 / 12800000) ltac:(lra).
have h0 : 9902321585445 / 10000000000000 <= exp (- (125643 / 12800000)) by move: h; rewrite /=; lra.
have h1 : 9805597278156 / 10000000000000
  <= exp (2 * (- (125643 / 12800000))) by apply: exp_double h0 _; lra.
have h2 : 9614973798138 / 10000000000000
  <= exp (2 * (2 * (- (125643 / 12800000)))) by apply: exp_double h1 _; lra.
have h3 : 9244772113888 / 10000000000000
  <= exp (2 * (2 * (2 * (- (125643 / 12800000))))) by apply: exp_double h2 _; lra.
have h4 : 8546581143772 / 10000000000000
  <= exp (2 * (2 * (2 * (2 * (- (125643 / 12800000)))))) by apply: exp_double h3 _; lra.
have h5 : 7304404924707 / 10000000000000
  <= exp (2 * (2 * (2 * (2 * (2 * (- (125643 / 12800000))))))) by apply: exp_double h4 _; lra.
have h6 : 5335433130408 / 10000000000000
  <= exp (2 * (2 * (2 * (2 * (2 * (2 * (- (125643 / 12800000)))))))) by apply: exp_double h5 _; lra.
have h7 : 2846684668905 / 10000000000000
  <= exp (2 * (2 * (2 * (2 * (2 * (2 * (2 * (- (125643 / 12800000))))))))) by apply: exp_double h6
    _; lra.
have e : 2 * (2 * (2 * (2 * (2 * (2 * (2 * (- (125643 / 12800000))))))))
  = - (125643 / 100000) by field.
rewrite e in h7; have hp := exp_pos (125643 / 100000).
have e1 : exp (125643 / 100000) * exp (- (125643 / 100000))
  = 1 by rewrite -exp_plus Rplus_opp_r exp_0.
have := Rmult_le_compat_l _ _ _ (Rlt_le _ _ hp) h7; lra.
Qed.

Lemma exp_above : exp (125644 / 100000) > 351288 / 100000.
Proof.
have h := exp_ge_taylor_4 (x := 125644 / 1600000) ltac:(lra).
have h0 : 108169307609 / 100000000000 <= exp (125644 / 1600000) by move: h; rewrite /=; lra.
have h1 : 117005991086 / 100000000000 <= exp (2 * (125644 / 1600000)) by apply: exp_double h0 _;
  lra.
have h2 : 136904019500 / 100000000000
  <= exp (2 * (2 * (125644 / 1600000))) by apply: exp_double h1 _; lra.
have h3 : 187427105552 / 100000000000
  <= exp (2 * (2 * (2 * (125644 / 1600000)))) by apply: exp_double h2 _; lra.
have h4 : 351289198956 / 100000000000 <= exp (2 * (2 * (2 * (2 * (125644 / 1600000))))) by apply:
  exp_double h3 _; lra.
have e : 2 * (2 * (2 * (2 * (125644 / 1600000)))) = 125644 / 100000 by field.
by rewrite e in h4; lra.
Qed.
