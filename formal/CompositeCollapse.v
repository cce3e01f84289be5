(** * Collapse in the composite value, for any number of heads

    Claims collapse.multi-head-corrected and (for one layer and over depth) the first part of
    collapse.single-head-without-gamma.  Let [R = X - 1 x^T] for any row [x], and let every row of
    [E_h = R WQK_h R^T / sqrt d_qk] have an oscillation of at most [critical], the root of
    [exp x = 1 + 2 x] between 1/2 and 2.  Then for some row [y]

      [|SA X - 1 y^T|_(1,oo) <= 4 / sqrt d_qk * sqrt (\sum_h q_h |W_h|_1 * \sum_h q_h |W_h|_oo)
                                * |R|_(1,oo)^3],   [q_h = |WQK_h|_1].

    Idea.  A row of attention is [softmax (r + E_i)] with one [r] for all rows, so up to a common row
    the output is [\sum_h (P_h - 1 p_h^T) R W_h] with [p_h = softmax r_h].  A row of [P_h - 1 p_h^T]
    has absolute sum at most [osc E_i / 2 <= |E|_1] (the sharp bound in total variation) and at most
    [2 exp (osc E_i) \sum_j p_j |E_ij|] ([moved_mass]); summed over [i] the second is at most
    [2 exp critical |E|_1 <= 10 |E|_1].  The constant here is [sqrt 10]; the book's finer proof has
    [sqrt 2]. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter Attention.
From AttnVerify Require Import SharpDepth Stochastic Composite.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

(** ** The critical oscillation *)
Lemma critical_exists : { x : R | / 2 <= x <= 2 /\ exp x - (1 + 2 * x) = 0 }.
Proof.
apply: (IVT (fun x => exp x - (1 + 2 * x))).
- by reg.
- by lra.
- have -> : 1 + 2 * / 2 = 2 by field.
  have h : exp (/ 2) * exp (/ 2) <= 3 by rewrite -exp_plus (_ : / 2 + / 2 = 1); [exact: exp_le_3 | field].
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

(** The positive root is unique, so that [critical] is the number of the claim. *)
Lemma critical_unique x : 0 < x -> exp x = 1 + 2 * x -> x = critical.
Proof.
have conv a b : 0 < a < b -> exp a = 1 + 2 * a -> exp b = 1 + 2 * b -> False.
  (* the chord from 0 to b lies above the convex function exp at a *)
  move=> hab ha hb.
  have t1 : exp 0 > exp a * (1 + - a).
    have : exp a * exp (- a) = exp 0 by rewrite -exp_plus; congr exp; ring.
    have := exp_ineq1 (- a); have := exp_pos a => hp hi <-.
    by apply: Rmult_lt_compat_l => //; apply: hi; lra.
  have t2 : exp b > exp a * (1 + (b - a)).
    have : exp a * exp (b - a) = exp b by rewrite -exp_plus; congr exp; ring.
    have := exp_ineq1 (b - a); have := exp_pos a => hp hi <-.
    by apply: Rmult_lt_compat_l => //; apply: hi; lra.
  rewrite exp_0 ha in t1; rewrite ha hb in t2.
  by nra.
move=> hx h; have hc := critical_bounds; have hr := critical_root.
case: (Rtotal_order x critical) => [hlt|[//|hlt]].
- by case: (conv x critical); lra.
- by case: (conv critical x); lra.
Qed.

(** ** How far the mass of a row moves *)
Section MovedMass.
Variables (I : finType) (r e : I -> R).
Let p := softmax r.
Let P := softmax (fun i => r i + e i).

Lemma exp_difference a b B : exp a <= B -> exp b <= B -> Rabs (exp a - exp b) <= B * Rabs (a - b).
Proof.
have one x y : x <= y -> exp y - exp x <= exp y * (y - x).
  move=> h; have := exp_ineq1_le (x - y); have hy := exp_pos y.
  have -> : exp x = exp y * exp (x - y) by rewrite -exp_plus; congr exp; ring.
  by nra.
move=> ha hb; case: (Rle_dec a b) => h.
- rewrite (Rabs_left1 (a - b)); last by lra.
  rewrite Rabs_left1; last by have := exp_le h; lra.
  by have := one _ _ h; have := exp_pos b; nra.
- rewrite (Rabs_pos_eq (a - b)); last by lra.
  have h' : b <= a by lra.
  rewrite Rabs_pos_eq; last by have := exp_le h'; lra.
  by have := one _ _ h'; have := exp_pos a; nra.
Qed.

Theorem moved_mass : TV P p <= exp (osc e) * \sum_j (p j * Rabs (e j)).
Proof.
case: (pickP (fun _ : I => true)) => [i0 _|hI]; last first.
  by rewrite /TV !big_pred0 => [|i|i]; [lra | have := hI i | have := hI i].
pose m := \sum_l (p l * exp (e l)).
have hp l : 0 < p l := softmax_gt0 r l.
have hp1 : \sum_l p l = 1 := softmax_sum1 r i0.
have hm : 0 < m by apply: sum_gt0 => // l; apply: Rmult_lt_0_compat => //; exact: exp_pos.
have hP j : P j = p j * exp (e j) / m.
  have hZ := sum_exp_gt0 r i0; rewrite /P /m /p /softmax.
  have -> : \sum_l (exp (r l) / (\sum_j exp (r j)) * exp (e l))
    = (\sum_l exp (r l + e l)) / (\sum_j exp (r j)).
    by rewrite /Rdiv -sumZr; apply: eq_bigr => l _; rewrite exp_plus; ring.
  have hZ' := sum_exp_gt0 (fun l => r l + e l) i0; rewrite exp_plus.
  by field; split; lra.
have hB j : exp (e j) <= exp (osc e) * m.
  rewrite /m -sumZl; apply: (@Rle_trans _ (\sum_l (p l * exp (e j)))).
    by rewrite sumZr hp1; lra.
  apply: sum_le => l _.
  have h : exp (e j) <= exp (osc e) * exp (e l).
    by rewrite -exp_plus; apply: exp_le; have := osc_ub e j l; lra.
  by have := Rmult_le_compat_l _ _ _ (Rlt_le _ _ (hp l)) h; lra.
pose S := \sum_l (p l * Rabs (e l)).
have hS : 0 <= S by apply: sum_ge0 => l _; apply: Rmult_le_pos; [exact: Rlt_le | exact: Rabs_pos].
have each j : Rabs (P j - p j) <= exp (osc e) * (p j * (Rabs (e j) + S)).
  have -> : P j - p j = p j * (\sum_l (p l * (exp (e j) - exp (e l)))) / m.
    have -> : \sum_l (p l * (exp (e j) - exp (e l))) = exp (e j) - m.
      under eq_bigr => l _ do rewrite Rmult_minus_distr_l.
      by rewrite sumB sumZr hp1 Rmult_1_l.
    by rewrite hP; field; lra.
  have hi : 0 < / m := Rinv_0_lt_compat _ hm.
  rewrite /Rdiv Rabs_mult (Rabs_mult (p j)) (Rabs_pos_eq (p j)) ?(Rabs_pos_eq (/ m)); try exact: Rlt_le.
  have h : Rabs (\sum_l (p l * (exp (e j) - exp (e l)))) <= exp (osc e) * m * (Rabs (e j) + S).
    apply: Rle_trans (sum_abs _ _) _.
    have -> : exp (osc e) * m * (Rabs (e j) + S)
      = \sum_l (p l * (exp (osc e) * m * (Rabs (e j) + Rabs (e l)))).
      have -> : \sum_l (p l * (exp (osc e) * m * (Rabs (e j) + Rabs (e l))))
        = exp (osc e) * m * (Rabs (e j) * (\sum_l p l) + S).
        rewrite -sumZl -sumD -sumZl; apply: eq_bigr => l _; ring.
      by rewrite hp1; ring.
    apply: sum_le => l _; rewrite (Rabs_mult (p l)) (Rabs_pos_eq (p l)); last exact: Rlt_le.
    apply: Rmult_le_compat_l; first exact: Rlt_le.
    apply: Rle_trans (exp_difference (hB j) (hB l)) _.
    apply: Rmult_le_compat_l; first by apply: Rmult_le_pos; [exact: Rlt_le (exp_pos _) | lra].
    by have := Rabs_triang (e j) (- e l); rewrite Rabs_Ropp.
  have h2 := Rmult_le_compat_r _ _ _ (Rlt_le _ _ hi) (Rmult_le_compat_l _ _ _ (Rlt_le _ _ (hp j)) h).
  have e2 : p j * (exp (osc e) * m * (Rabs (e j) + S)) * / m = exp (osc e) * (p j * (Rabs (e j) + S)).
    by field; lra.
  by rewrite -e2; lra.
rewrite /TV -/S; have : \sum_j Rabs (P j - p j) <= \sum_j (exp (osc e) * (p j * (Rabs (e j) + S))).
  by apply: sum_le => j _; exact: each.
have -> : \sum_j (exp (osc e) * (p j * (Rabs (e j) + S))) = exp (osc e) * (2 * S).
  rewrite sumZl; congr (_ * _); under eq_bigr => j _ do rewrite Rmult_plus_distr_l.
  by rewrite sumD sumZr hp1 -/S; ring.
by lra.
Qed.
End MovedMass.

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
Definition moved h X x : T -> T -> R := fun i j => attention h X i j - softmax (base_logits h X x) j.

Lemma moved_TV h X x i :
  \sum_j Rabs (moved h X x i j) = 2 * TV (attention h X i) (softmax (base_logits h X x)).
Proof. by rewrite /TV -Rmult_assoc Rinv_r; [rewrite Rmult_1_l | lra]. Qed.

Lemma moved_rows h X x i :
  \sum_j Rabs (moved h X x i j) <= max_column_sum (residual_scores h (centered X x)).
Proof.
set E := residual_scores h (centered X x).
rewrite moved_TV.
have hTV : TV (attention h X i) (softmax (base_logits h X x)) <= osc (E i) / 4.
  have -> : TV (attention h X i) (softmax (base_logits h X x))
    = TV (softmax (base_logits h X x)) (attention h X i).
    by rewrite /TV; congr (_ * _); apply: eq_bigr => j _; exact: Rabs_minus_sym.
  rewrite (attention_about_center h X x i); apply: Rle_trans (softmax_TV_le _ _) _.
  by apply: tanh_le_id; have := osc_ge0 (E i); rewrite -/E; lra.
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
  \sum_i \sum_j Rabs (moved h X x i j) <= 10 * max_column_sum (residual_scores h (centered X x)).
Proof.
set E := residual_scores h (centered X x) => hE; set p := softmax (base_logits h X x).
have hp1 : T -> \sum_j p j = 1 by move=> t; exact: softmax_sum1.
have hp0 j : 0 <= p j by apply: Rlt_le; exact: softmax_gt0.
have row i : \sum_j Rabs (moved h X x i j) <= 10 * \sum_j (p j * Rabs (E i j)).
  rewrite moved_TV -/p.
  have h1 : TV (attention h X i) p <= exp (osc (E i)) * \sum_j (p j * Rabs (E i j)).
    by rewrite (attention_about_center h X x i); exact: moved_mass.
  have h2 : exp (osc (E i)) <= 5.
    by have := exp_le (hE i); rewrite critical_root; have := critical_bounds; lra.
  have h3 : 0 <= \sum_j (p j * Rabs (E i j)).
    by apply: sum_ge0 => j _; apply: Rmult_le_pos => //; exact: Rabs_pos.
  by nra.
apply: (@Rle_trans _ (\sum_i (10 * \sum_j (p j * Rabs (E i j))))); first by apply: sum_le => i _.
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

Lemma head_column_half h X x : (forall i, osc (residual_scores h (centered X x) i) <= critical) ->
  max_column_sum (mul (moved h X x) (centered X x))
  <= 10 * max_column_sum (residual_scores h (centered X x)) * max_column_sum (centered X x).
Proof.
move=> hE; have h0 := max_column_sum_ge0 (residual_scores h (centered X x)).
have h1 := max_column_sum_ge0 (centered X x).
apply: max_lub => [|k]; first by apply: Rmult_le_pos => //; lra.
apply: (@Rle_trans _ (\sum_i \sum_j (Rabs (moved h X x i j) * max_column_sum (centered X x)))).
  apply: sum_le => i _; apply: Rle_trans (sum_abs _ _) _; apply: sum_le => j _.
  rewrite Rabs_mult; apply: Rmult_le_compat_l; first exact: Rabs_pos.
  apply: Rle_trans (column_sum_le (centered X x) k).
  by apply: (sum_ge_term (F := fun j => Rabs (centered X x j k))) => j'; exact: Rabs_pos.
have -> : \sum_i \sum_j (Rabs (moved h X x i j) * max_column_sum (centered X x))
  = (\sum_i \sum_j Rabs (moved h X x i j)) * max_column_sum (centered X x).
  by rewrite -sumZr; apply: eq_bigr => i _; rewrite sumZr.
by apply: Rmult_le_compat_r => //; exact: moved_total.
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
  \sum_a (lin (WVO (heads L a)) (fun m => lin (centered X x) (softmax (base_logits (heads L a) X x)) m + x m) k)
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
  = \sum_j (attention h X i j * centered X x j m) - \sum_j (softmax (base_logits h X x) j * centered X x j m).
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

(** ** Claim collapse.multi-head-corrected *)
Theorem multi_head_corrected L X x :
  (forall a i, osc (residual_scores (heads L a) (centered X x) i) <= critical) ->
  exists y, composite (sub (self_attention L X) (constant_rows y))
    <= 4 / root_key_width D
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
case: (pickP (fun _ : T => true)) => [t _|hT]; last first.
  have -> : composite (sub (self_attention L X) (constant_rows (output_center L X x))) = 0.
    rewrite /composite; have -> : max_row_sum (sub (self_attention L X) (constant_rows (output_center L X x))) = 0.
      by rewrite /max_row_sum big_pred0.
    by rewrite Rmult_0_r sqrt_0.
  by apply: Rmult_le_pos; [apply: Rmult_le_pos => //; rewrite /Rdiv -/s; lra | exact: pow_le].
rewrite (output_about_center L X x t).
apply: square_le.
  by apply: Rmult_le_pos; [apply: Rmult_le_pos => //; rewrite /Rdiv -/s; lra | exact: pow_le].
rewrite composite_sq.
have hcol : max_column_sum (fun i k => \sum_a mul (mul (moved (heads L a) X x) R) (WVO (heads L a)) i k)
  <= 10 * s * composite R ^ 2 * max_column_sum R * A.
  apply: Rle_trans (max_column_sum_sum _) _; rewrite /A -sumZl; apply: sum_le => a _.
  apply: Rle_trans (column_sum_mul _ _) _.
  have g0 := max_column_sum_ge0 (WVO (heads L a)).
  have g1 := head_column_half (hE a); have g2 := scores_size (heads L a) X x; rewrite -/R in g1 g2.
  have g3 : 10 * max_column_sum (residual_scores (heads L a) R) * max_column_sum R
    <= 10 * (max_column_sum (WQK (heads L a)) / root_key_width D * composite R ^ 2) * max_column_sum R.
    by apply: Rmult_le_compat_r => //; lra.
  have := Rmult_le_compat_r _ _ _ g0 (Rle_trans _ _ _ g1 g3).
  by rewrite /Rdiv -/s; lra.
have hrow : max_row_sum (fun i k => \sum_a mul (mul (moved (heads L a) X x) R) (WVO (heads L a)) i k)
  <= s * composite R ^ 2 * max_row_sum R * B.
  apply: Rle_trans (max_row_sum_sum _) _; rewrite /B -sumZl; apply: sum_le => a _.
  apply: Rle_trans (row_sum_mul _ _) _.
  have g0 := max_row_sum_ge0 (WVO (heads L a)).
  have g1 := head_row_half (heads L a) X x; have g2 := scores_size (heads L a) X x; rewrite -/R in g1 g2.
  have g3 : max_column_sum (residual_scores (heads L a) R) * max_row_sum R
    <= (max_column_sum (WQK (heads L a)) / root_key_width D * composite R ^ 2) * max_row_sum R.
    by apply: Rmult_le_compat_r.
  have := Rmult_le_compat_r _ _ _ g0 (Rle_trans _ _ _ g1 g3).
  by rewrite /Rdiv -/s; lra.
have h3 := Rmult_le_compat _ _ _ _ (max_ge0 _) (max_ge0 _) hcol hrow.
apply: Rle_trans h3 _.
have -> : 4 / root_key_width D * sqrt (A * B) * composite R ^ 3
    * (4 / root_key_width D * sqrt (A * B) * composite R ^ 3)
  = 16 * (s * s * (composite R ^ 2 * composite R ^ 2) * (composite R * composite R)
    * (sqrt (A * B) * sqrt (A * B))) by rewrite /Rdiv -/s; ring.
rewrite hsq composite_sq.
have -> : 10 * s * composite R ^ 2 * max_column_sum R * A * (s * composite R ^ 2 * max_row_sum R * B)
  = 10 * (s * s * (composite R ^ 2 * composite R ^ 2) * (max_column_sum R * max_row_sum R) * (A * B)).
  by ring.
apply: Rmult_le_compat_r; last by lra.
have hcc : 0 <= composite R ^ 2 by apply: pow_le.
have g1 := Rmult_le_pos _ _ hs hs; have g2 := Rmult_le_pos _ _ hcc hcc.
have g3 := Rmult_le_pos _ _ h1 h2; have g4 := Rmult_le_pos _ _ hA hB.
by apply: Rmult_le_pos => //; apply: Rmult_le_pos => //; exact: Rmult_le_pos.
Qed.
End Layer.
