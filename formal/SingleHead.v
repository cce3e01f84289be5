(** * One head without gamma

    Claim collapse.single-head-without-gamma, its first two parts: for one head, if the rows of
    [E = R WQK R^T / sqrt d_qk] have oscillations of at most [critical], a layer turns a residual
      [R]
    into one of composite value at most [4 beta / sqrt d_qk |R|^3]; and [n] layers that meet the
    condition with the minimizing centers leave at most
    [(4 beta / sqrt d_qk)^((3^n - 1)/2) |res X|^(3^n)].  The layer that needs the condition is in
    Anchor.v. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter Attention.
From AttnVerify Require Import SharpDepth Composite Critical CompositeCollapse ManyHeads.
Require Import Psatz.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Section SingleHead.
Variables T K D V : finType.
Implicit Types (X : T -> K -> R) (L : layer K D V unit_finType) (x : K -> R).

(** [beta = |WQK|_1 |WV WO|_(1,oo)] of the only head. *)
Definition single_beta L : R :=
  max_column_sum (WQK (heads L tt)) * composite (WVO (heads L tt)).

Lemma single_beta_ge0 L : 0 <= single_beta L.
Proof. by apply: Rmult_le_pos; [exact: max_column_sum_ge0 | exact: composite_ge0]. Qed.

Theorem single_layer L X x :
  (forall i, osc (residual_scores (heads L tt) (sub X (constant_rows x)) i) <= critical) ->
  exists y, composite (sub (self_attention L X) (constant_rows y))
    <= 4 * single_beta L / root_key_width D * composite (sub X (constant_rows x)) ^ 3.
Proof.
move=> hE; have [y [hy _]] := multi_head_corrected (L := L) (X := X) (x := x) (fun a
  => match a with tt => hE end).
exists y; apply: Rle_trans hy _; right; rewrite !sum_unit.
set q := max_column_sum (WQK _); set c := max_column_sum _; set r := max_row_sum _.
have hq : 0 <= q := max_column_sum_ge0 _.
have -> : sqrt (q * c * (q * r)) = q * composite (WVO (heads L tt)).
  have -> : q * c * (q * r) = Rsqr q * (c * r) by rewrite /Rsqr; ring.
  rewrite sqrt_mult; [by rewrite sqrt_Rsqr | exact: Rle_0_sqr |].
  by apply: Rmult_le_pos; [exact: max_column_sum_ge0 | exact: max_row_sum_ge0].
by rewrite /single_beta -/q /Rdiv; ring.
Qed.

Theorem single_head_depth (net : nat -> layer K D V unit_finType) X (x : nat -> K -> R) (beta : R)
  n :
  (forall l, Nat.le l n -> minimizing_center (states net X l) (x l)) ->
  (forall l, Nat.lt l n -> single_beta (net l) <= beta) -> 0 <= beta ->
  (forall l i, Nat.lt l n ->
     osc (residual_scores (heads (net l) tt) (sub (states net X l) (constant_rows (x l))) i)
       <= critical) ->
  composite (sub (states net X n) (constant_rows (x n)))
    <= (4 * beta / root_key_width D) ^ (Nat.div (Nat.sub (Nat.pow 3 n) 1) 2)
       * composite (sub X (constant_rows (x 0%nat))) ^ Nat.pow 3 n.
Proof.
move=> hx hb hb0 hE; have hr := inv_root_ge0 D.
apply: (@cubic_recursion_upto _ (fun l => composite (sub (states net X l) (constant_rows (x l))))).
- by apply: Rmult_le_pos => //; lra.
- by move=> l; exact: composite_ge0.
- move=> l hl; have [y hy] := single_layer (fun i => hE l i hl).
  have h1 := hx (S l) hl y; apply: Rle_trans h1 _; apply: Rle_trans hy _.
  apply: Rmult_le_compat_r; first by apply: pow_le; exact: composite_ge0.
  by apply: Rmult_le_compat_r => //; have := hb l hl; lra.
Qed.
End SingleHead.
