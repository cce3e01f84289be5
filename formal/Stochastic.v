(** * Products of row-stochastic matrices

    Claims paths.stochastic-product and collapse.stochastic-products.  A product of row-stochastic
    matrices is row-stochastic, and a row-stochastic matrix fixes every matrix with equal rows.  A
    product of fixed row-stochastic matrices contracts the diameter by the product of their
    contraction coefficients; for two tokens and [P = ((1 - a, a), (a, 1 - a))] both sides are
    [|1 - 2a|^L diam X], so the rate is geometric. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Notation "\prod_ ( i < n ) F" := (\big[Rmult/(IZR (Zpos xH))]_(i < n) F%R) : R_scope.

Lemma mul_constant_rows (S T K : finType) (P : S -> T -> R) (b : K -> R) :
  (forall i, \sum_j P i j = 1) -> mul P (constant_rows b) = constant_rows b.
Proof. by move=> h; apply: matrix_eq => i k; rewrite /mul /constant_rows sumZr h Rmult_1_l. Qed.

Lemma mul_sum1 (R' S T : finType) (P : R' -> S -> R) (Q : S -> T -> R) :
  (forall i, \sum_j P i j = 1) -> (forall i, \sum_j Q i j = 1) ->
  forall i, \sum_j mul P Q i j = 1.
Proof.
move=> hP hQ i; rewrite /mul sum_exchange -(hP i); apply: eq_bigr => k _.
by rewrite sumZl hQ; ring.
Qed.

(** ** Claim paths.stochastic-product *)
Theorem stochastic_product (T K : finType) (P Q : T -> T -> R) :
  row_stochastic P -> row_stochastic Q ->
  row_stochastic (mul P Q) /\ forall b : K -> R, mul P (constant_rows b) = constant_rows b.
Proof.
move=> [hP0 hP] [hQ0 hQ]; split; last by move=> b; exact: mul_constant_rows.
split; last exact: mul_sum1.
by move=> i j; apply: sum_ge0 => k _; exact: Rmult_le_pos.
Qed.

(** Near neighbor: without the hypothesis that the rows of [P] sum to 1. *)
Theorem row_sums_needed :
  ~ (forall (T : finType) (P Q : T -> T -> R), (forall i j, 0 <= P i j) -> row_stochastic Q ->
       row_stochastic (mul P Q)).
Proof.
move=> h; have hid : row_stochastic (ident : bool -> bool -> R).
  by split=> [i j|i]; [rewrite /ident; case: ifP; lra | exact: (sum_delta i (fun _ => 1))].
have [_ h1] := h bool_finType zero ident (fun _ _ => Rle_refl 0) hid.
by have := h1 true; rewrite mul1r /zero sum0; lra.
Qed.

(** ** Claim collapse.stochastic-products *)

(** [P_L ... P_1]: the later layer stands to the left. *)
Fixpoint product (T : finType) (P : nat -> T -> T -> R) (L : nat) : T -> T -> R :=
  match L with O => ident | S l => mul (P l) (product P l) end.

Definition averaging (a : R) : bool -> bool -> R := fun b c => if b == c then 1 - a else a.

Lemma averaging_stochastic a : 0 <= a <= 1 -> row_stochastic (averaging a).
Proof.
move=> ha; split=> [b c|b]; first by rewrite /averaging; case: ifP; lra.
by rewrite big_bool /averaging; case: b => /=; lra.
Qed.

Lemma contraction_averaging a : 0 <= a <= 1 -> contraction (averaging a) = Rabs (1 - 2 * a).
Proof.
move=> ha; have [_ h1] := averaging_stochastic ha.
have e b c : TV (averaging a b) (averaging a c) = if b == c then 0 else Rabs (1 - 2 * a).
  rewrite TV_two // /averaging; case: b; case: c => /=.
  - by rewrite Rminus_diag_eq // Rabs_R0.
  - by congr Rabs; ring.
  - by rewrite -Rabs_Ropp; congr Rabs; ring.
  - by rewrite Rminus_diag_eq // Rabs_R0.
have h0 := Rabs_pos (1 - 2 * a); rewrite /contraction; apply: Rle_antisym.
  by apply: max_lub => // b; apply: max_lub => // c; rewrite e; case: ifP; lra.
apply: Rle_trans (max_ub _ true); apply: Rle_trans (max_ub _ false).
by rewrite e /=; lra.
Qed.

Lemma diam_averaging (K : finType) a (X : bool -> K -> R) :
  diam (mul (averaging a) X) = Rabs (1 - 2 * a) * diam X.
Proof.
have two_rows (Y : bool -> K -> R) : diam Y = norm (vsub (Y true) (Y false)).
  apply: Rle_antisym; last exact: diam_ub.
  apply: diam_lub => [|[] []]; try exact: norm_ge0; try by rewrite vsub_refl norm_0;
    exact: norm_ge0.
  - exact: Rle_refl.
  - by rewrite norm_vsubC; exact: Rle_refl.
rewrite !two_rows -normZ; congr norm; apply: functional_extensionality => k.
by rewrite /vsub /vscale /mul !big_bool /averaging /=; ring.
Qed.

Theorem stochastic_products :
  (forall (T K : finType) (P : nat -> T -> T -> R) (X : T -> K -> R) (L : nat),
     (forall l, row_stochastic (P l)) ->
     diam (mul (product P L) X) <= (\prod_(l < L) contraction (P l)) * diam X) /\
  (forall (K : finType) (a : R) (X : bool -> K -> R) (L : nat), 0 <= a <= 1 ->
     row_stochastic (averaging a) /\
     (\prod_(l < L) contraction (averaging a)) * diam X = Rabs (1 - 2 * a) ^ L * diam X /\
     diam (mul (product (fun _ => averaging a) L) X) = Rabs (1 - 2 * a) ^ L * diam X).
Proof.
split=> [T K P X L hP|K a X L ha].
- elim: L => [|L IH]; first by rewrite big_ord0 mul1l; lra.
  rewrite big_ord_recr /= -mulA; apply: Rle_trans (diam_mul_left _ (proj2 (hP L))) _.
  rewrite (Rmult_comm _ (contraction (P L))) Rmult_assoc.
  by apply: Rmult_le_compat_l => //; exact: max_ge0.
- split; first exact: averaging_stochastic.
  split; elim: L => [|L IH]; rewrite ?big_ord0 ?mul1l //=; try by rewrite Rmult_1_l.
  + transitivity (Rabs (1 - 2 * a) * ((\prod_(l < L) contraction (averaging a)) * diam X)).
      by rewrite big_ord_recr /= {2}contraction_averaging //; ring.
    by rewrite IH; ring.
  + by rewrite -mulA diam_averaging IH; ring.
Qed.

(** Near neighbor: 0.999 times the bound, for two matrices. *)
Theorem not_products_999 :
  ~ (forall (T K : finType) (P : nat -> T -> T -> R) (X : T -> K
    -> R), (forall l, row_stochastic (P l)) ->
       diam (mul (product P 2) X)
         <= 999 / 1000 * (contraction (P 0%nat) * contraction (P 1%nat)) * diam X).
Proof.
move=> h; have ha : 0 <= 1 / 4 <= 1 by lra.
have := h _ _ (fun _ => averaging (1 / 4)) zero_one (fun _ => averaging_stochastic ha).
rewrite (proj2 (proj2 (proj2 stochastic_products _ _ zero_one 2%nat ha))) contraction_averaging //.
by rewrite diam_zero_one Rabs_pos_eq; lra.
Qed.
