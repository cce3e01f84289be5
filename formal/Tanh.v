(** * The hyperbolic tangent

    Coq's library of real numbers defines [tanh x = sinh x / cosh x] and proves little about it.
    Proved here: the closed form by exponentials, 0 <= tanh < 1 for arguments that are not negative,
    monotonicity, [x - x^3/3 <= tanh x <= x] for [0 <= x], and that
    [artanh y = (1/2) ln ((1 + y)/(1 - y))] inverts it. *)
From AttnVerify Require Import Sums.
Require Import Psatz.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Lemma exp_le x y : x <= y -> exp x <= exp y.
Proof. by case/Rle_lt_or_eq_dec => [h|->]; [apply: Rlt_le; exact: exp_increasing | lra]. Qed.

Lemma tanh_exp x : tanh x = (exp (2 * x) - 1) / (exp (2 * x) + 1).
Proof.
rewrite /tanh /sinh /cosh.
have -> : exp (2 * x) = exp x * exp x by rewrite -exp_plus; congr exp; ring.
have hx : 0 < exp x := exp_pos x.
rewrite exp_Ropp; field; split; nra.
Qed.

Lemma tanh_increasing x y : x < y -> tanh x < tanh y.
Proof.
move=> hxy; rewrite !tanh_exp.
have hx := exp_pos (2 * x); have hy := exp_pos (2 * y).
have hlt : exp (2 * x) < exp (2 * y) by apply: exp_increasing; lra.
set s := exp (2 * x) in hx hlt *; set t := exp (2 * y) in hy hlt *.
have -> : (s - 1) / (s + 1) = 1 - 2 / (s + 1) by field; lra.
have -> : (t - 1) / (t + 1) = 1 - 2 / (t + 1) by field; lra.
suff: / (t + 1) < / (s + 1) by rewrite /Rdiv; lra.
by apply: Rinv_lt_contravar; nra.
Qed.

Lemma tanh_le x y : x <= y -> tanh x <= tanh y.
Proof. by case/Rle_lt_or_eq_dec => [/tanh_increasing|->]; lra. Qed.

Lemma tanh_0 : tanh 0 = 0.
Proof. by rewrite tanh_exp Rmult_0_r exp_0; field. Qed.

Lemma tanh_ge0 x : 0 <= x -> 0 <= tanh x.
Proof. by move=> h; rewrite -tanh_0; exact: tanh_le. Qed.

Lemma tanh_gt0 x : 0 < x -> 0 < tanh x.
Proof. by move=> h; rewrite -tanh_0; exact: tanh_increasing. Qed.

Lemma tanh_lt1 x : tanh x < 1.
Proof.
rewrite tanh_exp; have h := exp_pos (2 * x).
by apply: (Rmult_lt_reg_r (exp (2 * x) + 1)); [lra | field_simplify; lra].
Qed.

Lemma tanh_opp x : tanh (- x) = - tanh x.
Proof.
rewrite /tanh /sinh /cosh Ropp_involutive; have h := exp_pos x; have h' := exp_pos (- x).
by field; lra.
Qed.

Lemma tanh_gtN1 x : -1 < tanh x.
Proof. by move: (tanh_lt1 (- x)); rewrite tanh_opp; lra. Qed.

Lemma Rabs_tanh x : Rabs (tanh x) = tanh (Rabs x).
Proof.
case: (Rle_dec 0 x) => h; first by rewrite !Rabs_pos_eq //; exact: tanh_ge0.
rewrite (Rabs_left1 x); last by lra.
by rewrite tanh_opp Rabs_left1 //; have := tanh_ge0 (x := - x); rewrite tanh_opp; lra.
Qed.

(** ** Derivative and Taylor bounds *)
Lemma cosh_gt0 x : 0 < cosh x.
Proof. by rewrite /cosh; move: (exp_pos x) (exp_pos (- x)); lra. Qed.

Lemma derivable_pt_lim_tanh x : derivable_pt_lim tanh x (1 - tanh x ^ 2).
Proof.
have hc := cosh_gt0 x.
have := derivable_pt_lim_div sinh cosh x _ _
  (derivable_pt_lim_sinh x) (derivable_pt_lim_cosh x) (Rgt_not_eq _ _ hc).
have -> : (cosh x * cosh x - sinh x * sinh x) / Rsqr (cosh x) = 1 - tanh x ^ 2.
  by rewrite /tanh /Rsqr; field; lra.
by [].
Qed.

(** A function with derivative at least 0 on [0, z] that starts at 0 is not negative at z. *)
Lemma growing_from_zero (g g' : R -> R) z : 0 <= z -> g 0 = 0 ->
  (forall c, derivable_pt_lim g c (g' c)) -> (forall c, 0 <= c <= z -> 0 <= g' c) -> 0 <= g z.
Proof.
move=> hz h0 hd hg; case: (Rle_lt_or_eq_dec _ _ hz) => [hz0|<-]; last by lra.
have [c [h1 h2]] := MVT_cor2 g g' 0 z hz0 (fun c _ => hd c).
have : 0 <= g' c * (z - 0) by apply: Rmult_le_pos; [apply: hg; lra | lra].
by lra.
Qed.

Lemma tanh_le_id z : 0 <= z -> tanh z <= z.
Proof.
move=> hz; suff: 0 <= z - tanh z by lra.
apply: (growing_from_zero (g := fun x => x - tanh x) (g' := fun x => 1 - (1 - tanh x ^ 2))) => //.
- by rewrite tanh_0; ring.
- move=> c; apply: (derivable_pt_lim_minus id tanh); first exact: derivable_pt_lim_id.
  exact: derivable_pt_lim_tanh.
- by move=> c _; move: (square_ge0 (tanh c)); lra.
Qed.

Lemma tanh_ge_cubic z : 0 <= z -> z - z ^ 3 / 3 <= tanh z.
Proof.
move=> hz; suff: 0 <= tanh z - (z - z ^ 3 / 3) by lra.
pose g x := tanh x - (x - x ^ 3 / 3); pose g' x := 1 - tanh x ^ 2 - (1 - 3 * x ^ 2 / 3).
apply: (growing_from_zero (g := g) (g' := g')) => //.
- by rewrite /g tanh_0; field.
- move=> c; apply: (derivable_pt_lim_minus tanh); first exact: derivable_pt_lim_tanh.
  apply: (derivable_pt_lim_minus id (fun x => x ^ 3 / 3)); first exact: derivable_pt_lim_id.
  have -> : 3 * c ^ 2 / 3 = 3 * c ^ 2 * / 3 + c ^ 3 * 0 by field.
  apply: (derivable_pt_lim_mult (fun x => x ^ 3) (fun _ => / 3)).
    by have := derivable_pt_lim_pow c 3; rewrite /=; have -> : 1 + 1 + 1 = 3 by ring.
  exact: derivable_pt_lim_const.
- move=> c hc; rewrite /g'; have h1 := tanh_le_id (proj1 hc); have h2 := tanh_ge0 (proj1 hc).
  by nra.
Qed.

(** ** The inverse *)
Definition artanh y := / 2 * ln ((1 + y) / (1 - y)).

Lemma tanh_artanh y : -1 < y < 1 -> tanh (artanh y) = y.
Proof.
move=> hy; rewrite tanh_exp /artanh.
have -> : 2 * (/ 2 * ln ((1 + y) / (1 - y))) = ln ((1 + y) / (1 - y)) by field.
rewrite exp_ln; first by field; lra.
by apply: Rdiv_lt_0_compat; lra.
Qed.

Lemma artanh_gt0 y : 0 < y < 1 -> 0 < artanh y.
Proof.
move=> hy; apply: Rnot_le_lt => h; have := tanh_le h.
by rewrite tanh_0 tanh_artanh; lra.
Qed.
