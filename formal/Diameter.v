(** * The diameter of a set of tokens

    Claim norms.diameter.  [diam X] is the largest Euclidean distance of two rows of [X].  It is a
    seminorm that vanishes exactly when all rows are equal; a product with [W] from the right
    multiplies it by at most [opnorm W], and a product with a row-stochastic matrix [P] from the
    left by at most [contraction P], the largest total variation of two rows of [P]. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Section Diameter.
Variables T K : finType.
Implicit Types X Y : T -> K -> R.

Definition diam X : R := \max_i \max_k norm (vsub (X i) (X k)).

Lemma diam_ub X i j : norm (vsub (X i) (X j)) <= diam X.
Proof. by apply: Rle_trans (max_ub _ i); exact: (max_ub (fun j => norm (vsub (X i) (X j)))). Qed.
Lemma diam_lub X B : 0 <= B -> (forall i j, norm (vsub (X i) (X j)) <= B) -> diam X <= B.
Proof. by move=> hB h; apply: max_lub => // i; exact: max_lub. Qed.
Lemma diam_ge0 X : 0 <= diam X. Proof. exact: max_ge0. Qed.

(** ** A seminorm *)
Theorem diam_triangle X Y : diam (add X Y) <= diam X + diam Y.
Proof.
apply: diam_lub => [|i j]; first by move: (diam_ge0 X) (diam_ge0 Y); lra.
have -> : vsub (add X Y i) (add X Y j) = fun k => vsub (X i) (X j) k + vsub (Y i) (Y j) k.
  by apply: functional_extensionality => k; rewrite /vsub /add; ring.
by apply: Rle_trans (norm_triangle _ _) _; apply: Rplus_le_compat; exact: diam_ub.
Qed.

Theorem diam_scale c X : diam (scale c X) = Rabs c * diam X.
Proof.
rewrite /diam -maxZ; last exact: Rabs_pos.
apply: eq_max => i; rewrite -maxZ; last exact: Rabs_pos.
apply: eq_max => j; rewrite -normZ; congr norm.
by apply: functional_extensionality => k; rewrite /vsub /scale /vscale; ring.
Qed.

Theorem diam_eq0 X : diam X = 0 <-> forall i j, X i = X j.
Proof.
split=> [h i j|h].
- apply: functional_extensionality => k.
  have hn : norm (vsub (X i) (X j)) = 0.
    by have := diam_ub X i j; have := norm_ge0 (vsub (X i) (X j)); lra.
  by have := norm_eq0 hn k; rewrite /vsub; lra.
- apply: Rle_antisym; last exact: diam_ge0.
  apply: diam_lub => [|i j]; first by lra.
  by rewrite (h i j) vsub_refl norm_0; lra.
Qed.

Lemma diam_constant_rows b : diam (constant_rows b) = 0.
Proof. by apply/diam_eq0. Qed.

(** ** Barycenters: the step behind the left products *)
Theorem barycenters X p q : \sum_i p i = 1 -> \sum_i q i = 1 ->
  norm (fun k => \sum_j ((p j - q j) * X j k)) <= TV p q * diam X.
Proof.
move=> hp hq; set v := fun k => _.
apply: norm_dual; first by apply: Rmult_le_pos; [exact: TV_ge0 | exact: diam_ge0].
have -> : dot v v = \sum_j ((p j - q j) * dot (X j) v).
  rewrite {1}/v dot_suml; apply: eq_bigr => j _; exact: dotZl.
rewrite Rmult_assoc; apply: TV_coupling => // i j; rewrite -dotBl.
apply: Rle_trans (cauchy_schwarz _ _) _.
by apply: Rmult_le_compat_r; [exact: norm_ge0 | exact: diam_ub].
Qed.
End Diameter.

(** ** Products *)
Definition row_stochastic (S T : finType) (P : S -> T -> R) :=
  (forall i j, 0 <= P i j) /\ (forall i, \sum_j P i j = 1).
Definition contraction (S T : finType) (P : S -> T -> R) : R := \max_i \max_k TV (P i) (P k).

Theorem diam_mul_right (T K M : finType) (X : T -> K -> R) (W : K -> M -> R) :
  diam (mul X W) <= opnorm W * diam X.
Proof.
apply: diam_lub => [|i j].
  by apply: Rmult_le_pos; [exact: opnorm_ge0 | exact: diam_ge0].
rewrite !mul_row -linB; apply: Rle_trans (opnorm_bound _ _) _.
by apply: Rmult_le_compat_l; [exact: opnorm_ge0 | exact: diam_ub].
Qed.

Theorem diam_mul_left (S T K : finType) (P : S -> T -> R) (X : T -> K -> R) :
  (forall i, \sum_j P i j = 1) -> diam (mul P X) <= contraction P * diam X.
Proof.
move=> hP; apply: diam_lub => [|i j].
  by apply: Rmult_le_pos; [exact: max_ge0 | exact: diam_ge0].
have -> : vsub (mul P X i) (mul P X j) = fun k => \sum_l ((P i l - P j l) * X l k).
  by apply: functional_extensionality => k; rewrite /vsub /mul -sumB; apply: eq_bigr => l _; ring.
apply: Rle_trans (barycenters _ (hP i) (hP j)) _.
apply: Rmult_le_compat_r; first exact: diam_ge0.
by apply: Rle_trans (max_ub _ i); exact: (max_ub (fun k => TV (P i) (P k)) j).
Qed.

(** ** Claim norms.diameter *)
Theorem diameter :
  (forall (T K : finType) (X Y : T -> K -> R),
     0 <= diam X /\ diam (add X Y) <= diam X + diam Y /\
     (forall c, diam (scale c X) = Rabs c * diam X) /\
     (diam X = 0 <-> forall i j, X i = X j)) /\
  (forall (T K M : finType) (X : T -> K -> R) (W : K -> M -> R),
     diam (mul X W) <= opnorm W * diam X) /\
  (forall (S T K : finType) (P : S -> T -> R) (X : T -> K -> R),
     row_stochastic P -> diam (mul P X) <= (\max_i \max_k TV (P i) (P k)) * diam X).
Proof.
split; last split.
- move=> T K X Y; split; first exact: diam_ge0.
  split; first exact: diam_triangle.
  by split=> [c|]; [exact: diam_scale | exact: diam_eq0].
- exact: diam_mul_right.
- by move=> S T K P X [_ h]; exact: diam_mul_left.
Qed.

(** ** Near neighbors: each factor is attained by an identity matrix *)
Definition zero_one : bool -> unit_finType -> R := fun b _ => if b then 1 else 0.

Lemma diam_zero_one : diam zero_one = 1.
Proof.
have e b c : norm (vsub (zero_one b) (zero_one c)) = if b == c then 0 else 1.
  rewrite /norm /dot (bigD1 tt) //= big_pred0 => [|[]] //; rewrite Rplus_0_r /vsub /zero_one.
  case: eqP => [->|h]; first by rewrite Rminus_diag_eq // Rmult_0_l sqrt_0.
  rewrite -[RHS]sqrt_1; congr sqrt.
  by case: b h; case: c => h; (case: (h erefl) || rewrite /=; ring).
apply: Rle_antisym; last by have := diam_ub zero_one true false; rewrite e.
by apply: diam_lub => [|[] []]; rewrite ?e /=; lra.
Qed.

Theorem not_right_999 :
  ~ (forall (T K M : finType) (X : T -> K -> R) (W : K -> M -> R),
       diam (mul X W) <= 999 / 1000 * opnorm W * diam X).
Proof.
move=> h; have := h _ _ _ zero_one ident; rewrite mul1r diam_zero_one.
have -> : (ident : unit_finType -> unit_finType -> R) = scale 1 ident.
  by apply: matrix_eq => i j; rewrite /scale; ring.
by rewrite opnorm_scale_ident ?Rabs_R1; [lra | exact: tt].
Qed.

Theorem not_left_999 :
  ~ (forall (S T K : finType) (P : S -> T -> R) (X : T -> K -> R),
       row_stochastic P -> diam (mul P X) <= 999 / 1000 * (\max_i \max_k TV (P i) (P k)) * diam X).
Proof.
move=> h; have hP : row_stochastic (ident : bool -> bool -> R).
  by split=> [i j|i]; [rewrite /ident; case: ifP; lra | exact: (sum_delta i (fun _ => 1))].
have := h _ _ _ ident zero_one hP; rewrite mul1l diam_zero_one.
suff : \max_i \max_k TV (ident i : bool -> R) (ident k) <= 1 by lra.
have e i k : TV (ident i : bool -> R) (ident k) <= 1.
  by rewrite TV_two ?(proj2 hP) // /ident; apply: Rabs_le; case: ifP; case: ifP; lra.
by apply: max_lub => [|i]; [lra | apply: max_lub => [|k]; [lra | exact: e]].
Qed.
