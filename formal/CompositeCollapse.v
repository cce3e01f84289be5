(** * Collapse in the composite value, for any number of heads

    Claims collapse.multi-head-corrected and (for one layer and over depth) the first part of
    collapse.single-head-without-gamma. Let [R = X - 1 x^T] for any row [x], and let every row of
    [E_h = R WQK_h R^T / sqrt d_qk] have an oscillation of at most [critical] = 1.25643..., the
    positive root of [exp x = 1 + 2 x]. Then for some row [y]

      [|SA X - 1 y^T|_(1,oo) <= sqrt 2 / sqrt d_qk * sqrt (\sum_h q_h |W_h|_1 * \sum_h q_h |W_h|_oo)
                                * |R|_(1,oo)^3],   [q_h = |WQK_h|_1].

    Idea. A row of attention is [softmax (r + E_i)] with one [r] for all rows, so up to a common
    row the output is [\sum_h (P_h - 1 p_h^T) R W_h] with [p_h = softmax r_h]. A row of [P_h - 1
    p_h^T] has absolute sum at most [osc E_i / 2 <= |E|_1] (the sharp bound in total variation),
    and half of it is at most [2 \sum_j p_j |E_ij|] ([moved_mass]), which is at most [2 |E|_1]
    when summed over [i]. The two halves of the composite value are therefore [|E|_1] and [2
    |E|_1] times those of [R], and the constant is [sqrt 2], better than 4. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter Attention.
From AttnVerify Require Import Stochastic Composite Critical MovedMass.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

(** ** One layer *)
Section Layer.
Variables T K D V H : finType.
Implicit Types (X Y : T -> K -> R) (h : head K D V) (L : layer K D V H) (x y : K -> R).

(** [X - 1 x^T] and [R WQK R^T / sqrt d_qk]. *)
Definition centered X x : T -> K -> R := sub X (constant_rows x).
Definition residual_scores h Y : T -> T -> R :=
  fun i j => mul (mul Y (WQK h)) (tr Y) i j / root_key_width D.

Definition base_logits h X x : T -> R := fun j =>
  dot (fun k => lin (WQK h) x k + lin (tr (WK h)) (bQ h) k) (centered X x j) / root_key_width D.

Lemma attention_about_center h X x i :
  attention h X i
    = softmax (fun j => base_logits h X x j + residual_scores h (centered X x) i j).
Proof.
rewrite qk_reduction; set b := lin (tr (WK h)) (bQ h).
pose c := dot (fun k => lin (WQK h) (X i) k + b k) x / root_key_width D.
rewrite -[RHS](shift_invariance _ c); congr softmax; apply: functional_extensionality => j.
have split_row : forall k, lin (WQK h) (X i) k = lin (WQK h) (centered X x i) k + lin (WQK h) x k.
  move=> k; have -> : lin (WQK h) (centered X x i) k = lin (WQK h) (X i) k - lin (WQK h) x k.
    by rewrite -[centered X x i]/(vsub (X i) x) linB.
  by ring.
rewrite /c /base_logits /residual_scores -/b /Rdiv -!Rmult_plus_distr_r; congr (_ * _).
rewrite -[mul (affine _ _ _) _ i j]/(dot (fun k => lin (WQK h) (X i) k + b k) (X j)).
rewrite -[mul (mul _ _) _ i j]/(dot (lin (WQK h) (centered X x i)) (centered X x j)).
rewrite /dot -!sumD; apply: eq_bigr => k _; rewrite split_row /centered /sub /constant_rows; ring.
Qed.

(** The two halves for one head: [M = P - 1 p^T]. *)
Definition moved h X x : T -> T -> R :=
  fun i j => attention h X i j - softmax (base_logits h X x) j.

Lemma moved_TV h X x i :
  \sum_j Rabs (moved h X x i j) = 2 * TV (attention h X i) (softmax (base_logits h X x)).
Proof. by rewrite /TV -Rmult_assoc Rinv_r; [rewrite Rmult_1_l | lra]. Qed.

Lemma moved_TV_le h X x i :
  TV (attention h X i) (softmax (base_logits h X x))
    <= osc (residual_scores h (centered X x) i) / 4.
Proof.
set E := residual_scores h (centered X x).
have -> : TV (attention h X i) (softmax (base_logits h X x))
  = TV (softmax (base_logits h X x)) (attention h X i).
  by rewrite /TV; congr (_ * _); apply: eq_bigr => j _; exact: Rabs_minus_sym.
rewrite (attention_about_center h X x i); apply: Rle_trans (softmax_TV_le _ _) _.
by apply: tanh_le_id; have := osc_ge0 (E i); rewrite -/E; lra.
Qed.

Lemma moved_rows h X x i :
  \sum_j Rabs (moved h X x i j) <= max_column_sum (residual_scores h (centered X x)).
Proof.
set E := residual_scores h (centered X x).
rewrite moved_TV; have hTV := moved_TV_le h X x i; rewrite -/E in hTV.
have hosc : osc (E i) <= 2 * max_column_sum E.
  have h0 := max_column_sum_ge0 E; apply: osc_lub => [|j l]; first by lra.
  have col j' : Rabs (E i j') <= max_column_sum E.
    apply: Rle_trans (column_sum_le E j').
    by apply: (sum_ge_term (F := fun i => Rabs (E i j'))) => i'; exact: Rabs_pos.
  by have := col j; have := col l; have := Rle_abs (E i j); have := Rle_abs (- E i l);
    rewrite Rabs_Ropp; lra.
by have := max_column_sum_ge0 E; lra.
Qed.

Lemma moved_total h X x : (forall i, osc (residual_scores h (centered X x) i) <= critical) ->
  \sum_i TV (attention h X i) (softmax (base_logits h X x))
    <= 2 * max_column_sum (residual_scores h (centered X x)).
Proof.
set E := residual_scores h (centered X x) => hE; set p := softmax (base_logits h X x).
have hp1 : T -> \sum_j p j = 1 by move=> t; exact: softmax_sum1.
have hp0 j : 0 <= p j by apply: Rlt_le; exact: softmax_gt0.
apply: (@Rle_trans _ (\sum_i (2 * \sum_j (p j * Rabs (E i j))))).
  by apply: sum_le => i _; rewrite (attention_about_center h X x i); exact: moved_mass (hE i).
rewrite sumZl; apply: Rmult_le_compat_l; first by lra.
rewrite sum_exchange; apply: (@Rle_trans _ (\sum_j (p j * max_column_sum E))).
  by apply: sum_le => j _; rewrite sumZl; apply: Rmult_le_compat_l => //; exact: column_sum_le.
rewrite sumZr; case: (pickP (fun _ : T => true)) => [t _|hT]; first by rewrite hp1 //; lra.
by rewrite big_pred0 ?Rmult_0_l; [exact: max_column_sum_ge0 | move=> t; have := hT t].
Qed.

Lemma head_row_half h X x : max_row_sum (mul (moved h X x) (centered X x))
  <= max_column_sum (residual_scores h (centered X x)) * max_row_sum (centered X x).
Proof.
apply: Rle_trans (row_sum_mul _ _) _; apply: Rmult_le_compat_r; first exact: max_row_sum_ge0.
by apply: max_lub => [|i]; [exact: max_column_sum_ge0 | exact: moved_rows].
Qed.

(** Two entries of a column differ by at most its absolute sum. *)
Lemma column_difference (Y : T -> K -> R) k j l : Y j k - Y l k <= max_column_sum Y.
Proof.
apply: Rle_trans (column_sum_le Y k).
case: (eqVneq j l) => [->|hjl].
  by rewrite Rminus_diag_eq //; apply: sum_ge0 => i _; exact: Rabs_pos.
rewrite (bigD1 j) //= (bigD1 l) /=; last by rewrite eq_sym.
have h : 0 <= \sum_(i | (i != j) && (i != l)) Rabs (Y i k) by apply: sum_ge0 => i _;
  exact: Rabs_pos.
by have := Rle_abs (Y j k); have := Rle_abs (- Y l k); rewrite Rabs_Ropp; lra.
Qed.

Lemma column_by_TV h X x : max_column_sum (mul (moved h X x) (centered X x))
  <= (\sum_i TV (attention h X i) (softmax (base_logits h X x))) * max_column_sum (centered X x).
Proof.
have h1 := max_column_sum_ge0 (centered X x); set p := softmax (base_logits h X x).
apply: max_lub => [|k].
  by apply: Rmult_le_pos => //; apply: sum_ge0 => i _; exact: TV_ge0.
apply: (@Rle_trans _ (\sum_i (TV (attention h X i) p * max_column_sum (centered X x)))).
  apply: sum_le => i _; have hp : \sum_j p j = 1 by exact: softmax_sum1 i.
  apply: Rabs_le; split.
  - have := TV_coupling (c := fun j => - centered X x j k) (B := max_column_sum (centered X x))
      (attention_sum1 h X i) hp.
    have -> : \sum_j ((attention h X i j - p j) * - centered X x j k)
      = - mul (moved h X x) (centered X x) i k.
      by rewrite /mul -sumN; apply: eq_bigr => j _; rewrite /moved -/p; ring.
    move=> hB; suff h2 : - mul (moved h X x) (centered X x) i k
        <= TV (attention h X i) p * max_column_sum (centered X x) by lra.
    by apply: hB => j l; have := column_difference (centered X x) k l j; lra.
  - exact: (TV_coupling (attention_sum1 h X i) hp (column_difference (centered X x) k)).
by rewrite sumZr; lra.
Qed.

Lemma head_column_half h X x : (forall i, osc (residual_scores h (centered X x) i) <= critical) ->
  max_column_sum (mul (moved h X x) (centered X x))
  <= 2 * max_column_sum (residual_scores h (centered X x)) * max_column_sum (centered X x).
Proof.
move=> hE; apply: Rle_trans (column_by_TV h X x) _.
by apply: Rmult_le_compat_r; [exact: max_column_sum_ge0 | exact: moved_total].
Qed.

Lemma scores_size h X x : max_column_sum (residual_scores h (centered X x))
  <= max_column_sum (WQK h) / root_key_width D * composite (centered X x) ^ 2.
Proof.
have hr := inv_root_ge0 D.
have -> : composite (centered X x) ^ 2 = max_column_sum (centered X x) * max_row_sum (centered X x).
  by rewrite /= Rmult_1_r composite_sq.
have -> : max_column_sum (residual_scores h (centered X x))
  = / root_key_width D * max_column_sum (mul (mul (centered X x) (WQK h)) (tr (centered X x))).
  rewrite /max_column_sum -maxZ //; apply: eq_max => j; rewrite -sumZl; apply: eq_bigr => i _.
  by rewrite /residual_scores /Rdiv Rabs_mult (Rabs_pos_eq (/ _)) //; ring.
have h1 := column_sum_mul (mul (centered X x) (WQK h)) (tr (centered X x)).
have h2 := column_sum_mul (centered X x) (WQK h).
have h3 : max_column_sum (tr (centered X x)) = max_row_sum (centered X x) by [].
rewrite h3 in h1; have h4 := max_row_sum_ge0 (centered X x).
have h5 : max_column_sum (mul (mul (centered X x) (WQK h)) (tr (centered X x)))
  <= max_column_sum (centered X x) * max_column_sum (WQK h) * max_row_sum (centered X x).
  by apply: Rle_trans h1 _; apply: Rmult_le_compat_r.
have := Rmult_le_compat_l _ _ _ hr h5; rewrite /Rdiv; lra.
Qed.

(** The output less a common row. *)
Definition output_center L X x : K -> R := fun k =>
  \sum_a lin (WVO (heads L a))
    (fun m => lin (centered X x) (softmax (base_logits (heads L a) X x)) m + x m) k
  + layer_bias L k.

Lemma output_about_center L X x : T ->
  sub (self_attention L X) (constant_rows (output_center L X x))
    = fun i k => \sum_a mul (mul (moved (heads L a) X x) (centered X x)) (WVO (heads L a)) i k.
Proof.
move=> t; apply: matrix_eq => i k; rewrite /sub /constant_rows /output_center self_attention_split.
have -> a b c : a + c - (b + c) = a - b by move=> *; ring.
rewrite -sumB; apply: eq_bigr => a _; set h := heads L a.
rewrite /mul /lin -sumB; apply: eq_bigr => m _; rewrite -Rmult_minus_distr_r; congr (_ * _).
have hX j : X j m = centered X x j m + x m by rewrite /centered /sub /constant_rows; ring.
have -> : \sum_j (attention h X i j * X j m)
  = \sum_j (attention h X i j * centered X x j m) + x m.
  under eq_bigr => j _ do rewrite hX Rmult_plus_distr_l.
  by rewrite sumD sumZr attention_sum1; ring.
have -> : \sum_j (moved h X x i j * centered X x j m)
  = \sum_j (attention h X i j * centered X x j m) - \sum_j (softmax (base_logits h X x) j
    * centered X x j m).
  by rewrite -sumB; apply: eq_bigr => j _; rewrite /moved; ring.
by ring.
Qed.

Lemma max_row_sum_sum (F : H -> T -> K -> R) :
  max_row_sum (fun i k => \sum_a F a i k) <= \sum_a max_row_sum (F a).
Proof.
apply: max_lub => [|i]; first by apply: sum_ge0 => a _; exact: max_row_sum_ge0.
apply: (@Rle_trans _ (\sum_k \sum_a Rabs (F a i k))); first by apply: sum_le => k _; exact: sum_abs.
by rewrite sum_exchange; apply: sum_le => a _; exact: row_sum_le.
Qed.

Lemma max_column_sum_sum (F : H -> T -> K -> R) :
  max_column_sum (fun i k => \sum_a F a i k) <= \sum_a max_column_sum (F a).
Proof.
apply: max_lub => [|k]; first by apply: sum_ge0 => a _; exact: max_column_sum_ge0.
apply: (@Rle_trans _ (\sum_i \sum_a Rabs (F a i k))); first by apply: sum_le => i _; exact: sum_abs.
by rewrite sum_exchange; apply: sum_le => a _; exact: column_sum_le.
Qed.

(** ** The bound with the constant [sqrt 2] *)
Theorem multi_head_bound L X x :
  (forall a i, osc (residual_scores (heads L a) (centered X x) i) <= critical) ->
  exists y, composite (sub (self_attention L X) (constant_rows y))
    <= sqrt 2 / root_key_width D
       * sqrt ((\sum_a (max_column_sum (WQK (heads L a)) * max_column_sum (WVO (heads L a))))
               * (\sum_a (max_column_sum (WQK (heads L a)) * max_row_sum (WVO (heads L a)))))
       * composite (centered X x) ^ 3.
Proof.
move=> hE; exists (output_center L X x).
set R := centered X x; set s := / root_key_width D; have hs : 0 <= s := inv_root_ge0 D.
set A := \sum_a _; set B := \sum_a _.
have hA : 0 <= A by apply: sum_ge0 => a _; apply: Rmult_le_pos; exact: max_ge0.
have hB : 0 <= B by apply: sum_ge0 => a _; apply: Rmult_le_pos; exact: max_ge0.
have h1 := max_column_sum_ge0 R; have h2 := max_row_sum_ge0 R; have hc := composite_ge0 R.
have hsq := sqrt_sqrt (A * B) (Rmult_le_pos _ _ hA hB); have hsp := sqrt_pos (A * B).
have h2p := sqrt_pos 2; have h22 := sqrt_sqrt 2 ltac:(lra).
case: (pickP (fun _ : T => true)) => [t _|hT]; last first.
  have -> : composite (sub (self_attention L X) (constant_rows (output_center L X x))) = 0.
    rewrite /composite; have
      -> : max_row_sum (sub (self_attention L X) (constant_rows (output_center L X x))) = 0.
      by rewrite /max_row_sum big_pred0.
    by rewrite Rmult_0_r sqrt_0.
  by apply: Rmult_le_pos; [apply: Rmult_le_pos => //; exact: Rmult_le_pos | exact: pow_le].
rewrite (output_about_center L X x t).
apply: square_le.
  by apply: Rmult_le_pos; [apply: Rmult_le_pos => //; exact: Rmult_le_pos | exact: pow_le].
rewrite composite_sq.
have hcol : max_column_sum (fun i k =>
    \sum_a mul (mul (moved (heads L a) X x) R) (WVO (heads L a)) i k)
  <= 2 * s * composite R ^ 2 * max_column_sum R * A.
  apply: Rle_trans (max_column_sum_sum _) _; rewrite /A -sumZl; apply: sum_le => a _.
  apply: Rle_trans (column_sum_mul _ _) _.
  have g0 := max_column_sum_ge0 (WVO (heads L a)).
  have g1 := head_column_half (hE a); have g2 := scores_size (heads L a) X x; rewrite -/R in g1 g2.
  have g3 : 2 * max_column_sum (residual_scores (heads L a) R) * max_column_sum R
    <= 2 * (max_column_sum (WQK (heads L a)) / root_key_width D * composite R ^ 2)
      * max_column_sum R.
    by apply: Rmult_le_compat_r => //; lra.
  have := Rmult_le_compat_r _ _ _ g0 (Rle_trans _ _ _ g1 g3).
  by rewrite /Rdiv -/s; lra.
have hrow : max_row_sum (fun i k =>
    \sum_a mul (mul (moved (heads L a) X x) R) (WVO (heads L a)) i k)
  <= s * composite R ^ 2 * max_row_sum R * B.
  apply: Rle_trans (max_row_sum_sum _) _; rewrite /B -sumZl; apply: sum_le => a _.
  apply: Rle_trans (row_sum_mul _ _) _.
  have g0 := max_row_sum_ge0 (WVO (heads L a)).
  have g1 := head_row_half (heads L a) X x; have g2 := scores_size (heads L a) X x;
    rewrite -/R in g1 g2.
  have g3 : max_column_sum (residual_scores (heads L a) R) * max_row_sum R
    <= (max_column_sum (WQK (heads L a)) / root_key_width D * composite R ^ 2) * max_row_sum R.
    by apply: Rmult_le_compat_r.
  have := Rmult_le_compat_r _ _ _ g0 (Rle_trans _ _ _ g1 g3).
  by rewrite /Rdiv -/s; lra.
have h3 := Rmult_le_compat _ _ _ _ (max_ge0 _) (max_ge0 _) hcol hrow.
apply: Rle_trans h3 _.
have -> : sqrt 2 / root_key_width D * sqrt (A * B) * composite R ^ 3
    * (sqrt 2 / root_key_width D * sqrt (A * B) * composite R ^ 3)
  = (sqrt 2 * sqrt 2) * (s * s * (composite R ^ 2 * composite R ^ 2) * (composite R * composite R)
    * (sqrt (A * B) * sqrt (A * B))) by rewrite /Rdiv -/s; ring.
by rewrite h22 hsq composite_sq; right; ring.
Qed.
End Layer.

(** ** Claim collapse.multi-head-corrected *)
Theorem multi_head_corrected (T K D V H : finType) (L : layer K D V H) (X : T -> K -> R)
    (x : K -> R) :
  (forall h i, osc (residual_scores (heads L h) (sub X (constant_rows x)) i) <= critical) ->
  let bound := sqrt ((\sum_h (max_column_sum (WQK (heads L h)) * max_column_sum (WVO (heads L h))))
                     * (\sum_h (max_column_sum (WQK (heads L h)) * max_row_sum (WVO (heads L h)))))
               * composite (sub X (constant_rows x)) ^ 3 in
  exists y,
    composite (sub (self_attention L X) (constant_rows y)) <= 4 / root_key_width D * bound /\
    composite (sub (self_attention L X) (constant_rows y)) <= sqrt 2 / root_key_width D * bound.
Proof.
move=> hE bound; have [y hy] := multi_head_bound hE; exists y.
have hb : composite (sub (self_attention L X) (constant_rows y)) <= sqrt 2 / root_key_width D
  * bound.
  by apply: Rle_trans hy _; rewrite /bound /centered; lra.
split=> //; apply: Rle_trans hb _.
have h0 : 0 <= bound.
  by apply: Rmult_le_pos; [exact: sqrt_pos | apply: pow_le; exact: composite_ge0].
apply: Rmult_le_compat_r => //; apply: Rmult_le_compat_r; first exact: inv_root_ge0.
by have := sqrt_sqrt 2 ltac:(lra); have := sqrt_pos 2; nra.
Qed.
