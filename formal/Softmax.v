(** * Softmax, oscillation and total variation

    The three definitions on rows of numbers, and what softmax does not see.

    - [softmax z i = exp (z i) / \sum_j exp (z j)];
    - [osc z], the largest difference of two entries (maximum less minimum);
    - [TV p q], half the sum of the absolute differences.

    Proved here: softmax is a probability vector, and
    [shift_invariance]: it does not change when one constant is added to all logits. *)
From AttnVerify Require Import Sums Tanh.
Require Import FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Section Softmax.
Variable I : finType.
Implicit Types (z c p q : I -> R).

Definition softmax z : I -> R := fun i => exp (z i) / \sum_j exp (z j).
Definition osc z : R := \max_i \max_j (z i - z j).
Definition TV p q : R := / 2 * \sum_i Rabs (p i - q i).

(** ** Oscillation *)
Lemma osc_ub c i j : c i - c j <= osc c.
Proof. by apply: Rle_trans (max_ub _ i); exact: (max_ub (fun j => c i - c j)). Qed.

Lemma osc_lub c B : 0 <= B -> (forall i j, c i - c j <= B) -> osc c <= B.
Proof. by move=> hB h; apply: max_lub => // i; apply: max_lub. Qed.

Lemma osc_ge0 c : 0 <= osc c. Proof. exact: max_ge0. Qed.

(** The oscillation is maximum less minimum, and both are attained. *)
Lemma osc_max_min c : I -> exists i j, (forall k, c j <= c k <= c i) /\ osc c = c i - c j.
Proof.
move=> i0; have [i hi] := argmax c i0; have [j hj] := argmax (fun k => - c k) i0.
exists i, j; split=> [k|]; first by move: (hi k) (hj k); lra.
apply: Rle_antisym; last exact: osc_ub.
by apply: osc_lub => [|k l]; [move: (hi j) | move: (hi k) (hj l)]; lra.
Qed.

(** ** Total variation *)
Lemma TV_ge0 p q : 0 <= TV p q.
Proof. by apply: Rmult_le_pos; [lra | apply: sum_ge0 => i _; exact: Rabs_pos]. Qed.

Lemma TV_refl p : TV p p = 0.
Proof. by rewrite /TV sum_eq0 => [|i _]; [ring | rewrite Rminus_diag_eq // Rabs_R0]. Qed.

(** ** Softmax is a probability vector *)
Lemma sum_exp_gt0 z : I -> 0 < \sum_j exp (z j).
Proof. by move=> i; apply: sum_gt0 => // j; exact: exp_pos. Qed.

Lemma softmax_gt0 z i : 0 < softmax z i.
Proof. by apply: Rdiv_lt_0_compat; [exact: exp_pos | exact: sum_exp_gt0]. Qed.

Lemma softmax_sum1 z : I -> \sum_i softmax z i = 1.
Proof. by move=> i; rewrite sumZr; apply: Rinv_r; move: (sum_exp_gt0 z i); lra. Qed.

(** ** Claim attention.shift-invariance *)
Theorem shift_invariance z (c : R) : softmax (fun i => z i + c) = softmax z.
Proof.
apply: functional_extensionality => i; rewrite /softmax.
have -> : \sum_j exp (z j + c) = (\sum_j exp (z j)) * exp c.
  by rewrite -sumZr; apply: eq_bigr => j _; exact: exp_plus.
by rewrite exp_plus; field; move: (sum_exp_gt0 z i) (exp_pos c); lra.
Qed.

(** Nothing else is lost: two rows with the same softmax differ by a constant. *)
Theorem shift_only z z' : softmax z = softmax z' -> forall i j, z i - z j = z' i - z' j.
Proof.
move=> h i j; have hi := f_equal (fun p => p i) h; have hj := f_equal (fun p => p j) h.
rewrite /softmax in hi hj; have hZ := sum_exp_gt0 z i; have hZ' := sum_exp_gt0 z' i.
set Z := \sum_k exp (z k) in hi hj hZ; set Z' := \sum_k exp (z' k) in hi hj hZ'.
have ln_quotient x S : 0 < S -> ln (exp x / S) = x - ln S.
  move=> hS; rewrite ln_mult ?ln_Rinv ?ln_exp //; first exact: exp_pos.
  exact: Rinv_0_lt_compat.
have e k : exp (z k) / Z = exp (z' k) / Z' -> z k - ln Z = z' k - ln Z'.
  by move=> hk; rewrite -!ln_quotient // hk.
by move: (e i hi) (e j hj); lra.
Qed.
End Softmax.

(** ** Near neighbor: a constant factor in place of a summand is not invisible *)
Theorem factor_is_visible :
  ~ (forall (I : finType) (z : I -> R) (c : R), softmax (fun i => z i * c) = softmax z).
Proof.
move=> h; have := shift_only (h bool_finType (fun b => if b then 1 else 0) 2) true false.
by rewrite /=; lra.
Qed.

(** Near neighbor: a constant added to all logits but one is not invisible. *)
Theorem partial_shift_is_visible :
  ~ (forall (I : finType) (z : I -> R) (c : R) (i0 : I),
       softmax (fun i => if i == i0 then z i else z i + c) = softmax z).
Proof.
move=> h; have := shift_only (h bool_finType (fun _ => 0) 1 true) true false.
by rewrite /=; lra.
Qed.
