(** * Matrices and the operator norm

    A matrix is a family [A : I -> J -> R]; row [i] of [A] is [A i], so a family of tokens
    [X : T -> K -> R] is the matrix whose rows are the tokens.  Rows are multiplied from the left,
    as in the book: [mul A B i k = \sum_j A i j * B j k], and [lin A u] is the row vector [u A].

    The operator norm [opnorm A], the largest singular value of [A], is defined as the supremum of
    [norm (u A)] over the vectors [u] with [norm u <= 1]; it exists because the real numbers are
    complete.  Proved here: [opnorm A] is the least [B >= 0] with [norm (u A) <= B * norm u] for
    every [u]; it is at most the Frobenius norm; the rules for products, transposes, identity and
    matrices of rank one. *)
From AttnVerify Require Import Sums Vectors.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Lemma matrix_eq (I J : Type) (A B : I -> J -> R) : (forall i j, A i j = B i j) -> A = B.
Proof. by move=> h; do 2!apply: functional_extensionality => ?; exact: h. Qed.

(** ** Operations *)
Definition mul (I J K : finType) (A : I -> J -> R) (B : J -> K -> R) : I -> K -> R :=
  fun i k => \sum_j (A i j * B j k).
Definition add (I J : finType) (A B : I -> J -> R) : I -> J -> R := fun i j => A i j + B i j.
Definition sub (I J : finType) (A B : I -> J -> R) : I -> J -> R := fun i j => A i j - B i j.
Definition scale (I J : finType) (c : R) (A : I -> J -> R) : I -> J -> R := fun i j => c * A i j.
Definition zero (I J : finType) : I -> J -> R := fun _ _ => 0.
Definition ident (I : finType) : I -> I -> R := fun i j => if j == i then 1 else 0.
Definition tr (I J : finType) (A : I -> J -> R) : J -> I -> R := fun j i => A i j.
Definition lin (I J : finType) (A : I -> J -> R) (u : I -> R) : J -> R :=
  fun j => \sum_i (u i * A i j).
(** The matrix of rank one with rows [u i] times [v]. *)
Definition outer (I J : finType) (u : I -> R) (v : J -> R) : I -> J -> R := fun i j => u i * v j.
(** The matrix all of whose rows are [b]: the book's [1 b^T]. *)
Definition constant_rows (I J : finType) (b : J -> R) : I -> J -> R := fun _ j => b j.

Arguments mul {I J K} A B. Arguments ident {I}. Arguments zero {I J}. Arguments constant_rows {I J}.

Section Products.
Variables I J K M : finType.

Lemma mulA (A : I -> J -> R) (B : J -> K -> R) (C : K -> M -> R) :
  mul A (mul B C) = mul (mul A B) C.
Proof.
apply: matrix_eq => i m; rewrite /mul.
under eq_bigr => j _ do rewrite -sumZl.
under [RHS]eq_bigr => k _ do rewrite -sumZr.
by rewrite sum_exchange; do 2!apply: eq_bigr => ? _; ring.
Qed.

Lemma mulDl (A B : I -> J -> R) (C : J -> K -> R) : mul (add A B) C = add (mul A C) (mul B C).
Proof. by apply: matrix_eq => i k; rewrite /mul /add -sumD; apply: eq_bigr => j _; ring. Qed.
Lemma mulDr (A B : J -> K -> R) (C : I -> J -> R) : mul C (add A B) = add (mul C A) (mul C B).
Proof. by apply: matrix_eq => i k; rewrite /mul /add -sumD; apply: eq_bigr => j _; ring. Qed.
Lemma mulBl (A B : I -> J -> R) (C : J -> K -> R) : mul (sub A B) C = sub (mul A C) (mul B C).
Proof. by apply: matrix_eq => i k; rewrite /mul /sub -sumB; apply: eq_bigr => j _; ring. Qed.
Lemma mulBr (A B : J -> K -> R) (C : I -> J -> R) : mul C (sub A B) = sub (mul C A) (mul C B).
Proof. by apply: matrix_eq => i k; rewrite /mul /sub -sumB; apply: eq_bigr => j _; ring. Qed.
Lemma mulZl c (A : I -> J -> R) (B : J -> K -> R) : mul (scale c A) B = scale c (mul A B).
Proof. by apply: matrix_eq => i k; rewrite /mul /scale -sumZl; apply: eq_bigr => j _; ring. Qed.
Lemma mulZr c (A : I -> J -> R) (B : J -> K -> R) : mul A (scale c B) = scale c (mul A B).
Proof. by apply: matrix_eq => i k; rewrite /mul /scale -sumZl; apply: eq_bigr => j _; ring. Qed.
Lemma mul0l (B : J -> K -> R) : mul (zero : I -> J -> R) B = zero.
Proof. by apply: matrix_eq => i k; apply: sum_eq0 => j _; rewrite /zero; ring. Qed.
Lemma mul0r (A : I -> J -> R) : mul A (zero : J -> K -> R) = zero.
Proof. by apply: matrix_eq => i k; apply: sum_eq0 => j _; rewrite /zero; ring. Qed.
Lemma mul1l (A : I -> J -> R) : mul ident A = A.
Proof.
apply: matrix_eq => i k; rewrite /mul /ident -[RHS](sum_delta i (fun i => A i k)).
by apply: eq_bigr => j _; case: (j == i); ring.
Qed.
Lemma mul1r (A : I -> J -> R) : mul A ident = A.
Proof.
apply: matrix_eq => i k; rewrite /mul /ident -[RHS](sum_delta k (A i)).
by apply: eq_bigr => j _; rewrite eq_sym; case: (j == k); ring.
Qed.
Lemma tr_mul (A : I -> J -> R) (B : J -> K -> R) : tr (mul A B) = mul (tr B) (tr A).
Proof. by apply: matrix_eq => k i; apply: eq_bigr => j _; rewrite /tr; ring. Qed.

Lemma mul_suml (H : finType) (A : H -> I -> J -> R) (B : J -> K -> R) :
  mul (fun i j => \sum_h A h i j) B = fun i k => \sum_h mul (A h) B i k.
Proof.
apply: matrix_eq => i k; rewrite /mul sum_exchange.
by apply: eq_bigr => j _; rewrite sumZr.
Qed.
Lemma mul_sumr (H : finType) (A : I -> J -> R) (B : H -> J -> K -> R) :
  mul A (fun j k => \sum_h B h j k) = fun i k => \sum_h mul A (B h) i k.
Proof.
apply: matrix_eq => i k; rewrite /mul sum_exchange.
by apply: eq_bigr => j _; rewrite sumZl.
Qed.

(** Rows of a product, and the same equation twice: [u (A B) = (u A) B]. *)
Lemma mul_row (A : I -> J -> R) (B : J -> K -> R) i : mul A B i = lin B (A i).
Proof. by []. Qed.
Lemma lin_mul (A : I -> J -> R) (B : J -> K -> R) u : lin (mul A B) u = lin B (lin A u).
Proof.
apply: functional_extensionality => k; rewrite /lin /mul.
under eq_bigr => i _ do rewrite -sumZl.
under [RHS]eq_bigr => j _ do rewrite -sumZr.
by rewrite sum_exchange; do 2!apply: eq_bigr => ? _; ring.
Qed.
Lemma dot_lin (A : I -> J -> R) u v : dot (lin A u) v = dot u (lin (tr A) v).
Proof.
rewrite /dot /lin /tr; under eq_bigr => j _ do rewrite -sumZr.
under [RHS]eq_bigr => i _ do rewrite -sumZl.
by rewrite sum_exchange; do 2!apply: eq_bigr => ? _; ring.
Qed.

Lemma linB (A : I -> J -> R) u v : lin A (vsub u v) = vsub (lin A u) (lin A v).
Proof.
by apply: functional_extensionality => j; rewrite /vsub /lin -sumB; apply: eq_bigr => i _; ring.
Qed.
Lemma linZ (A : I -> J -> R) c u : lin A (vscale c u) = vscale c (lin A u).
Proof.
by apply: functional_extensionality => j; rewrite /vscale /lin -sumZl; apply: eq_bigr => i _; ring.
Qed.
Lemma lin_outer (u : I -> R) (v : J -> R) w : lin (outer u v) w = vscale (dot w u) v.
Proof.
apply: functional_extensionality => j; rewrite /lin /outer /vscale /dot -sumZr.
by apply: eq_bigr => i _; ring.
Qed.
Lemma lin_scale (A : I -> J -> R) c u : lin (scale c A) u = vscale c (lin A u).
Proof.
by apply: functional_extensionality => j; rewrite /vscale /scale /lin -sumZl;
  apply: eq_bigr => i _; ring.
Qed.
Lemma mul_outer (u : I -> R) (v w : J -> R) (x : K -> R) :
  mul (outer u v) (outer w x) = scale (dot v w) (outer u x).
Proof.
apply: matrix_eq => i k; rewrite /mul /outer /scale /dot -sumZr.
by apply: eq_bigr => j _; ring.
Qed.
Lemma tr_outer (u : I -> R) (v : J -> R) : tr (outer u v) = outer v u.
Proof. by apply: matrix_eq => i j; rewrite /tr /outer; ring. Qed.
Lemma tr_scale c (A : I -> J -> R) : tr (scale c A) = scale c (tr A).
Proof. by []. Qed.
Lemma trK (A : I -> J -> R) : tr (tr A) = A. Proof. by []. Qed.
End Products.

Lemma lin_ident (I : finType) (u : I -> R) : lin ident u = u.
Proof.
apply: functional_extensionality => j; rewrite /lin /ident -[RHS](sum_delta j u).
by apply: eq_bigr => i _; rewrite eq_sym; case: (i == j); ring.
Qed.

(** ** The operator norm *)
Section OperatorNorm.
Variables I J : finType.
Implicit Types (A : I -> J -> R) (u : I -> R).

Definition frobenius A : R := sqrt (\sum_i \sum_j (A i j * A i j)).

Lemma frobenius_bound A u : norm (lin A u) <= frobenius A * norm u.
Proof.
have hf2 : 0 <= \sum_i \sum_j (A i j * A i j).
  by apply: sum_ge0 => i _; apply: sum_ge0 => j _; exact: square_ge0.
have hf : 0 <= frobenius A := sqrt_pos _.
apply: square_le; first by apply: Rmult_le_pos => //; exact: norm_ge0.
have -> : frobenius A * norm u * (frobenius A * norm u) = (frobenius A * frobenius A) * dot u u.
  by rewrite -(norm_sq u); ring.
rewrite /frobenius sqrt_sqrt // norm_sq sum_exchange {1}/dot -sumZr.
apply: sum_le => j _; rewrite -/(dot u (tr A j)) -norm_sq.
have -> : \sum_i (A i j * A i j) = norm (tr A j) * norm (tr A j) by rewrite norm_sq.
have h := cauchy_schwarz_abs u (tr A j).
have -> : lin A u j = dot u (tr A j) by [].
rewrite -[X in X <= _]Rabs_pos_eq; last exact: square_ge0.
rewrite Rabs_mult; have h0 := Rabs_pos (dot u (tr A j)).
have := Rmult_le_compat _ _ _ _ h0 h0 h h; lra.
Qed.

Definition lengths A (r : R) := exists u, norm u <= 1 /\ r = norm (lin A u).

Lemma lengths_bounded A : bound (lengths A).
Proof.
exists (frobenius A) => r [u [hu ->]]; apply: Rle_trans (frobenius_bound A u) _.
rewrite -[X in _ <= X]Rmult_1_r; apply: Rmult_le_compat_l => //; exact: sqrt_pos.
Qed.

Lemma lengths_inhabited A : exists r, lengths A r.
Proof. by exists (norm (lin A (fun _ => 0))), (fun _ => 0); split=> //; rewrite norm_0; lra. Qed.

(** The supremum of the lengths of [u A] over the unit ball. *)
Definition opnorm A : R :=
  proj1_sig (completeness (lengths A) (lengths_bounded A) (lengths_inhabited A)).

Lemma opnorm_is_supremum A : is_lub (lengths A) (opnorm A).
Proof. exact: (proj2_sig (completeness (lengths A) (lengths_bounded A) (lengths_inhabited A))). Qed.

Lemma opnorm_ge0 A : 0 <= opnorm A.
Proof.
have [r [u [hu hr]]] := lengths_inhabited A; have [h _] := opnorm_is_supremum A.
by apply: (Rle_trans _ r); [rewrite hr; exact: norm_ge0 | apply: h; exists u].
Qed.

Theorem opnorm_bound A u : norm (lin A u) <= opnorm A * norm u.
Proof.
have hn := norm_ge0 u; case: (Req_dec (norm u) 0) => h0.
  by apply: Rle_trans (frobenius_bound A u) _; rewrite h0; lra.
have hp : 0 < norm u by lra.
have hi := Rinv_0_lt_compat _ hp.
have [h _] := opnorm_is_supremum A.
have h1 : norm (lin A (vscale (/ norm u) u)) <= opnorm A.
  apply: h; exists (vscale (/ norm u) u); split=> //.
  by rewrite normZ Rabs_pos_eq; [right; field; lra | lra].
rewrite linZ normZ Rabs_pos_eq in h1; last by lra.
have -> : norm (lin A u) = (/ norm u * norm (lin A u)) * norm u by field.
by apply: Rmult_le_compat_r.
Qed.

Theorem opnorm_least A B : 0 <= B -> (forall u, norm (lin A u) <= B * norm u) -> opnorm A <= B.
Proof.
move=> hB h; have [_ hl] := opnorm_is_supremum A; apply: hl => r [u [hu ->]].
by apply: Rle_trans (h u) _; move: (norm_ge0 u); nra.
Qed.

Lemma opnorm_outer c (u : I -> R) (v : J -> R) : 0 <= c -> norm u = 1 -> norm v = 1 ->
  opnorm (scale c (outer u v)) = c.
Proof.
move=> hc hu hv; have e w : norm (lin (scale c (outer u v)) w) = c * Rabs (dot w u).
  by rewrite lin_scale lin_outer !normZ hv (Rabs_pos_eq c) //; ring.
apply: Rle_antisym.
  apply: opnorm_least => // w; rewrite e; apply: Rmult_le_compat_l => //.
  by apply: Rle_trans (cauchy_schwarz_abs w u) _; rewrite hu; lra.
have := opnorm_bound (scale c (outer u v)) u; rewrite e hu -norm_sq hu.
by rewrite Rmult_1_r Rabs_R1; lra.
Qed.
End OperatorNorm.

(** The bilinear form of a matrix. *)
Lemma bilinear_bound (I J : finType) (A : I -> J -> R) u v :
  dot (lin A u) v <= opnorm A * norm u * norm v.
Proof.
apply: Rle_trans (cauchy_schwarz _ _) _; apply: Rmult_le_compat_r; first exact: norm_ge0.
exact: opnorm_bound.
Qed.

Lemma bilinear_abs (I J : finType) (A : I -> J -> R) u v :
  Rabs (dot (lin A u) v) <= opnorm A * norm u * norm v.
Proof.
apply: Rle_trans (cauchy_schwarz_abs _ _) _; apply: Rmult_le_compat_r; first exact: norm_ge0.
exact: opnorm_bound.
Qed.

Lemma opnorm_scale_ident (I : finType) c : I -> opnorm (scale c (ident (I := I))) = Rabs c.
Proof.
move=> i; have e u : norm (lin (scale c ident) u) = Rabs c * norm (u : I -> R).
  by rewrite lin_scale lin_ident normZ.
apply: Rle_antisym; first by apply: opnorm_least => [|u]; [exact: Rabs_pos | rewrite e; lra].
pose u (k : I) : R := if k == i then 1 else 0.
have hu : norm u = 1.
  rewrite /norm /dot /u -[RHS]sqrt_1 -[in RHS](sum_delta i (fun _ => 1)); congr sqrt.
  by apply: eq_bigr => k _; case: (k == i); ring.
by have := opnorm_bound (scale c ident) u; rewrite e hu; lra.
Qed.
