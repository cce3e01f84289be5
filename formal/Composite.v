(** * The composite value of Dong et al.

    [composite A = sqrt (|A|_1 |A|_oo)], with the largest sum of absolute values in a column and in
    a row.  Claims norms.submultiplicative (it is submultiplicative and does not change under
    transposition), norms.not-subadditive (it is no norm: two 2 x 2 matrices) and
    collapse.version-1-proof-gap (the sum of the oscillations of the rows of [E] is not bounded by
    [2 |E|_1]: a 3 x 3 matrix). *)
From AttnVerify Require Import Sums Tanh Softmax Vectors Matrices.
Require Import Psatz.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Section Composite.
Variables I J : finType.
Implicit Type A : I -> J -> R.

(** The largest absolute row sum and the largest absolute column sum. *)
Definition max_row_sum A : R := \max_i \sum_j Rabs (A i j).
Definition max_column_sum A : R := \max_j \sum_i Rabs (A i j).
Definition composite A : R := sqrt (max_column_sum A * max_row_sum A).

Lemma row_sum_le A i : \sum_j Rabs (A i j) <= max_row_sum A.
Proof. exact: (max_ub (fun i => \sum_j Rabs (A i j))). Qed.
Lemma column_sum_le A j : \sum_i Rabs (A i j) <= max_column_sum A.
Proof. exact: (max_ub (fun j => \sum_i Rabs (A i j))). Qed.
Lemma max_row_sum_ge0 A : 0 <= max_row_sum A. Proof. exact: max_ge0. Qed.
Lemma max_column_sum_ge0 A : 0 <= max_column_sum A. Proof. exact: max_ge0. Qed.
Lemma composite_ge0 A : 0 <= composite A. Proof. exact: sqrt_pos. Qed.

Lemma composite_sq A : composite A * composite A = max_column_sum A * max_row_sum A.
Proof.
by apply: sqrt_sqrt; apply: Rmult_le_pos; [exact: max_column_sum_ge0 | exact: max_row_sum_ge0].
Qed.
End Composite.

Lemma row_sum_mul (I J K : finType) (A : I -> J -> R) (B : J -> K -> R) :
  max_row_sum (mul A B) <= max_row_sum A * max_row_sum B.
Proof.
have hA := max_row_sum_ge0 A; have hB := max_row_sum_ge0 B.
apply: max_lub => [|i]; first exact: Rmult_le_pos.
apply: (@Rle_trans _ (\sum_k \sum_j (Rabs (A i j) * Rabs (B j k)))).
  apply: sum_le => k _; apply: Rle_trans (sum_abs _ _) _.
  by apply: sum_le => j _; rewrite Rabs_mult; lra.
rewrite sum_exchange; apply: (@Rle_trans _ (\sum_j (Rabs (A i j) * max_row_sum B))).
  apply: sum_le => j _; rewrite sumZl; apply: Rmult_le_compat_l; first exact: Rabs_pos.
  exact: row_sum_le.
by rewrite sumZr; apply: Rmult_le_compat_r => //; exact: row_sum_le.
Qed.

Lemma max_column_sum_tr (I J : finType) (A : I -> J -> R) : max_column_sum A = max_row_sum (tr A).
Proof. by []. Qed.

Lemma column_sum_mul (I J K : finType) (A : I -> J -> R) (B : J -> K -> R) :
  max_column_sum (mul A B) <= max_column_sum A * max_column_sum B.
Proof. by rewrite !max_column_sum_tr tr_mul Rmult_comm; exact: row_sum_mul. Qed.

(** ** Claim norms.submultiplicative *)
Theorem submultiplicative :
  (forall (I J K : finType) (A : I -> J -> R) (B : J -> K -> R),
     composite (mul A B) <= composite A * composite B) /\
  (forall (I J : finType) (A : I -> J -> R), composite (tr A) = composite A).
Proof.
split=> [I J K A B|I J A]; last by rewrite /composite Rmult_comm.
apply: square_le; first by apply: Rmult_le_pos; exact: composite_ge0.
have -> : composite A * composite B * (composite A * composite B)
  = (composite A * composite A) * (composite B * composite B) by ring.
rewrite !composite_sq.
have h1 := column_sum_mul A B; have h2 := row_sum_mul A B.
have -> : max_column_sum A * max_row_sum A * (max_column_sum B * max_row_sum B)
  = (max_column_sum A * max_column_sum B) * (max_row_sum A * max_row_sum B) by ring.
by apply: Rmult_le_compat => //; exact: max_ge0.
Qed.

(** ** Small matrices: rows and columns are the elements of [bool] *)
Definition two_by_two (a b c d : R) : bool -> bool -> R :=
  fun i j => if i then (if j then a else b) else (if j then c else d).

Lemma max_bool (F : bool -> R) : 0 <= F true -> 0 <= F false
  -> \max_b F b = Rmax (F true) (F false).
Proof.
move=> h1 h2; apply: Rle_antisym.
  apply: max_lub => [|[]]; [|exact: Rmax_l|exact: Rmax_r].
  by apply: Rle_trans h1 _; exact: Rmax_l.
by apply: Rmax_lub; exact: max_ub.
Qed.

Lemma composite_two_by_two a b c d : composite (two_by_two a b c d)
  = sqrt (Rmax (Rabs a + Rabs c) (Rabs b + Rabs d) * Rmax (Rabs a + Rabs b) (Rabs c + Rabs d)).
Proof.
have h x y : 0 <= Rabs x + Rabs y by move: (Rabs_pos x) (Rabs_pos y); lra.
by rewrite /composite /max_column_sum /max_row_sum !max_bool ?big_bool /=.
Qed.

(** ** Claim norms.not-subadditive *)
Theorem not_subadditive :
  let A := two_by_two 1 0 1 0 in let B := two_by_two 1 1 0 0 in
  composite (add A B) = 3 /\ composite A + composite B = 2 * sqrt 2 /\ 3 > 2 * sqrt 2.
Proof.
move=> A B.
have e : add A B = two_by_two 2 1 1 0.
  by apply: matrix_eq => -[] []; rewrite /add /A /B /two_by_two /=; ring.
have r1 : Rabs 1 = 1 := Rabs_R1. have r0 : Rabs 0 = 0 := Rabs_R0.
have r2 : Rabs 2 = 2 by rewrite Rabs_pos_eq; lra.
rewrite e !composite_two_by_two r0 r1 r2.
have m x y : y <= x -> Rmax x y = x by exact: Rmax_left.
rewrite !m; try lra.
split; last split.
- have -> : (2 + 1) * (2 + 1) = 3 * 3 by ring.
  by rewrite sqrt_square; lra.
- have -> : (1 + 1) * (1 + 0) = 2 by ring.
  have -> : (1 + 0) * (1 + 1) = 2 by ring.
  by ring.
- have h := sqrt_sqrt 2 ltac:(lra); have h0 := sqrt_pos 2; nra.
Qed.

(** ** Near neighbors *)
Theorem not_submultiplicative_column :
  ~ (forall (A B : bool -> bool -> R), composite (mul A B) <= max_column_sum A * composite B).
Proof.
move=> h; have := h (two_by_two 1 1 0 0) ident; rewrite mul1r.
have -> : (ident : bool -> bool -> R) = two_by_two 1 0 0 1 by apply: matrix_eq => -[] [].
rewrite !composite_two_by_two /max_column_sum max_bool ?big_bool /=; rewrite ?Rabs_R0 ?Rabs_R1;
  try lra.
rewrite !Rmax_left; try lra.
have -> : (1 + 0) * (1 + 1) = 2 by ring.
have -> : (1 + 0) * (1 + 0) = 1 by ring.
by rewrite sqrt_1 => h1; have := sqrt_sqrt 2 ltac:(lra); have := sqrt_pos 2; nra.
Qed.

(** Not repaired by a factor 1.06. *)
Theorem not_subadditive_106 :
  ~ (forall (A B : bool -> bool -> R), composite (add A B)
    <= 106 / 100 * (composite A + composite B)).
Proof.
move=> h; have [h1 [h2 h3]] := not_subadditive.
have := h (two_by_two 1 0 1 0) (two_by_two 1 1 0 0); rewrite h1 h2.
by have := sqrt_sqrt 2 ltac:(lra); have := sqrt_pos 2; nra.
Qed.

(** ** Claim collapse.version-1-proof-gap: the registered statement is false *)
Definition gap_matrix : 'I_3 -> 'I_3 -> R := fun i j =>
  match val i, val j with
  | 0%nat, 0%nat => 1 | 0%nat, 1%nat => -1 | 2%nat, 2%nat => 1 | _, _ => 0
  end.

Theorem version_1_proof_gap :
  ~ (forall (n : nat) (E : 'I_n -> 'I_n -> R), \sum_i osc (E i) <= 2 * max_column_sum E).
Proof.
move=> /(_ 3%nat gap_matrix); rewrite !big_ord_recl big_ord0.
pose i0 : 'I_3 := ord0; pose i1 : 'I_3 := lift ord0 ord0;
  pose i2 : 'I_3 := lift ord0 (lift ord0 ord0).
have hc : max_column_sum gap_matrix <= 1.
  apply: max_lub => [|j]; first by lra.
  rewrite !big_ord_recl big_ord0 /gap_matrix /=.
  by case: j => -[|[|[|j]]] // hj /=; rewrite ?Rabs_R0 ?Rabs_Ropp ?Rabs_R1; lra.
have h0 := osc_ub (gap_matrix i0) i0 i1; have h1 := osc_ge0 (gap_matrix i1).
have h2 := osc_ub (gap_matrix i2) i2 i0.
have e00 : gap_matrix i0 i0 = 1 by [].
have e01 : gap_matrix i0 i1 = -1 by [].
have e22 : gap_matrix i2 i2 = 1 by [].
have e20 : gap_matrix i2 i0 = 0 by [].
by rewrite e00 e01 in h0; rewrite e22 e20 in h2; rewrite -/i0 -/i1 -/i2; lra.
Qed.

(** Two rows are not enough for it: for [n = 2] the inequality holds. *)
Theorem no_gap_for_two (E : 'I_2 -> 'I_2 -> R) : \sum_i osc (E i) <= 2 * max_column_sum E.
Proof.
have row i : osc (E i) <= \sum_j Rabs (E i j).
  rewrite !big_ord_recl big_ord0; apply: osc_lub => [|j l].
    by have := Rabs_pos (E i ord0); have := Rabs_pos (E i (lift ord0 ord0)); lra.
  have cases (m : 'I_2) : m = ord0 \/ m = lift ord0 ord0.
    by case: m => -[|[|m]] // hm; [left | right]; apply: val_inj.
  have a0 := Rle_abs (E i ord0); have a1 := Rle_abs (- E i ord0); rewrite Rabs_Ropp in a1.
  have b0 := Rle_abs (E i (lift ord0 ord0)); have b1 := Rle_abs (- E i (lift ord0 ord0)).
  rewrite Rabs_Ropp in b1.
  by case: (cases j) => ->; case: (cases l) => ->; lra.
apply: (@Rle_trans _ (\sum_i \sum_j Rabs (E i j))); first by apply: sum_le.
rewrite sum_exchange; apply: (@Rle_trans _ (\sum_(j < 2) max_column_sum E)).
  by apply: sum_le => j _; exact: column_sum_le.
by rewrite sum_const card_ord /=; lra.
Qed.
