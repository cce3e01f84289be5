(** * Finite sums and maxima of real numbers

    Everything in this folder is indexed by finite sets: [I : finType] stands for the tokens, the
    features or the heads, and nothing is said about how many elements it has. This file fixes the
    two operations that are used on such families of real numbers,

    - [\sum_i F i], the sum of all [F i];
    - [\max_i F i], the largest of 0 and all [F i]; it is only used for families of numbers that
      are not negative, where it is the maximum (and 0 if there is no index at all),

    and proves the elementary rules for them. Nothing here is specific to attention. *)
From mathcomp Require Export ssreflect ssrfun ssrbool eqtype ssrnat seq choice fintype.
From mathcomp Require Export tuple finfun bigop.
Require Export Reals Lra.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

(** ** Addition and multiplication as operations of a monoid *)
Lemma RplusA : associative Rplus. Proof. by move=> x y z; ring. Qed.
Lemma RplusC : commutative Rplus. Proof. by move=> x y; ring. Qed.
Lemma Rplus0l : left_id 0 Rplus. Proof. by move=> x; ring. Qed.
Lemma Rplus0r : right_id 0 Rplus. Proof. by move=> x; ring. Qed.
Lemma RmultA : associative Rmult. Proof. by move=> x y z; ring. Qed.
Lemma RmultC : commutative Rmult. Proof. by move=> x y; ring. Qed.
Lemma Rmult1l : left_id 1 Rmult. Proof. by move=> x; ring. Qed.
Lemma Rmult1r : right_id 1 Rmult. Proof. by move=> x; ring. Qed.
Lemma Rmult0l : left_zero 0 Rmult. Proof. by move=> x; ring. Qed.
Lemma Rmult0r : right_zero 0 Rmult. Proof. by move=> x; ring. Qed.
Lemma RmultDl : left_distributive Rmult Rplus. Proof. by move=> x y z; ring. Qed.
Lemma RmultDr : right_distributive Rmult Rplus. Proof. by move=> x y z; ring. Qed.

Canonical Rplus_monoid := Monoid.Law RplusA Rplus0l Rplus0r.
Canonical Rplus_comoid := Monoid.ComLaw RplusC.
Canonical Rmult_monoid := Monoid.Law RmultA Rmult1l Rmult1r.
Canonical Rmult_comoid := Monoid.ComLaw RmultC.
Canonical Rmult_muloid := Monoid.MulLaw Rmult0l Rmult0r.
Canonical Rplus_addoid := Monoid.AddLaw RmultDl RmultDr.

(** ** Notations *)
Notation "\sum_ ( i | P ) F" := (\big[Rplus/(IZR Z0)]_(i | P%B) F%R) : R_scope.
Notation "\sum_ i F" := (\big[Rplus/(IZR Z0)]_i F%R) : R_scope.
Notation "\sum_ ( i : t ) F" := (\big[Rplus/(IZR Z0)]_(i : t) F%R) (only parsing) : R_scope.
Notation "\sum_ ( i : t | P ) F" := (\big[Rplus/(IZR Z0)]_(i : t | P%B) F%R) (only parsing) :
  R_scope.
Notation "\sum_ ( i < n ) F" := (\big[Rplus/(IZR Z0)]_(i < n) F%R) : R_scope.
Notation "\max_ i F" := (\big[Rmax/(IZR Z0)]_i F%R) : R_scope.

(** ** Sums *)
Section FiniteSums.
Variable I : finType.
Implicit Types (P : pred I) (F G : I -> R).

Lemma sumD P F G : \sum_(i | P i) (F i + G i) = \sum_(i | P i) F i + \sum_(i | P i) G i.
Proof. exact: big_split. Qed.

Lemma sum_le P F G : (forall i, P i -> F i <= G i) -> \sum_(i | P i) F i <= \sum_(i | P i) G i.
Proof. by move=> h; apply: (big_ind2 (fun x y => x <= y)) => //; [lra | move=> *; lra]. Qed.

Lemma sum_ge0 P F : (forall i, P i -> 0 <= F i) -> 0 <= \sum_(i | P i) F i.
Proof. by move=> h; apply: (big_ind (fun x => 0 <= x)) => //; [lra | move=> *; lra]. Qed.

Lemma sumZl P F k : \sum_(i | P i) (k * F i) = k * \sum_(i | P i) F i.
Proof. by rewrite big_distrr. Qed.

Lemma sumZr P F k : \sum_(i | P i) (F i * k) = (\sum_(i | P i) F i) * k.
Proof. by rewrite big_distrl. Qed.

Lemma sumN P F : \sum_(i | P i) (- F i) = - \sum_(i | P i) F i.
Proof. by rewrite (big_morph Ropp Ropp_plus_distr Ropp_0). Qed.

Lemma sumB P F G : \sum_(i | P i) (F i - G i) = \sum_(i | P i) F i - \sum_(i | P i) G i.
Proof. by rewrite /Rminus sumD sumN. Qed.

Lemma sum0 P : \sum_(i | P i) (0 : R) = 0.
Proof. by apply: (big_ind (fun x => x = 0)) => // x y -> ->; ring. Qed.

Lemma sum_eq0 P F : (forall i, P i -> F i = 0) -> \sum_(i | P i) F i = 0.
Proof. by move=> h; rewrite -[RHS](sum0 P); exact: eq_bigr. Qed.

Lemma sum_const (c : R) : \sum_(i : I) c = INR #|I| * c.
Proof.
rewrite big_const; elim: #|I| => [|n IH]; first by rewrite /=; ring.
by rewrite iterS IH S_INR; ring.
Qed.

Lemma sum_abs P F : Rabs (\sum_(i | P i) F i) <= \sum_(i | P i) Rabs (F i).
Proof.
apply: (big_ind2 (fun x y => Rabs x <= y)).
- by rewrite Rabs_R0; lra.
- by move=> x1 x2 y1 y2 h1 h2; move: (Rabs_triang x1 y1); lra.
- by move=> *; lra.
Qed.

Lemma sum_split P F : \sum_i F i = \sum_(i | P i) F i + \sum_(i | ~~ P i) F i.
Proof. by rewrite (bigID P). Qed.

Lemma sum_ge_term F i : (forall j, 0 <= F j) -> F i <= \sum_j F j.
Proof.
move=> h; rewrite (bigD1 i) //=.
suff: 0 <= \sum_(j | j != i) F j by lra.
exact: sum_ge0.
Qed.

Lemma sum_gt0 F : I -> (forall j, 0 < F j) -> 0 < \sum_j F j.
Proof.
move=> i h; apply: (Rlt_le_trans _ (F i)) => //.
by apply: sum_ge_term => j; apply: Rlt_le.
Qed.

(** The sum of the family that is [c] at [i0] and 0 elsewhere. *)
Lemma sum_delta (i0 : I) F : \sum_i (if i == i0 then F i else 0) = F i0.
Proof.
rewrite (bigD1 i0) //= eqxx sum_eq0; first by ring.
by move=> i /negbTE ->.
Qed.

(** ** Maxima *)
Lemma max_ub F i : F i <= \max_j F j.
Proof.
have: i \in index_enum I by rewrite mem_index_enum.
elim: (index_enum I) => // j r IH; rewrite in_cons big_cons => /orP[/eqP->|/IH h].
- exact: Rmax_l.
- by apply: Rle_trans h _; exact: Rmax_r.
Qed.

Lemma max_lub F B : 0 <= B -> (forall i, F i <= B) -> \max_i F i <= B.
Proof. by move=> hB h; apply: (big_ind (fun x => x <= B)) => // x y; exact: Rmax_lub. Qed.

Lemma max_ge0 F : 0 <= \max_i F i.
Proof.
elim: (index_enum I) => [|j r IH]; first by rewrite big_nil; lra.
by rewrite big_cons; apply: Rle_trans IH _; exact: Rmax_r.
Qed.

(** The maximum is attained, and it is the number that bounds the family and belongs to it. *)
Lemma argmax F : I -> exists i0, forall j, F j <= F i0.
Proof.
move=> i.
have [i0 h]: exists i0, forall j, j \in index_enum I -> F j <= F i0.
  elim: (index_enum I) => [|k r [m IH]]; first by exists i.
  case: (Rle_dec (F k) (F m)) => hk.
  - exists m => j; rewrite in_cons => /orP[/eqP->|/IH] //.
  - exists k => j; rewrite in_cons => /orP[/eqP->|/IH]; lra.
by exists i0 => j; apply: h; rewrite mem_index_enum.
Qed.

Lemma max_eq F B i : 0 <= B -> F i = B -> (forall j, F j <= B) -> \max_j F j = B.
Proof.
move=> hB hi hub; apply: Rle_antisym; first exact: max_lub.
by rewrite -hi; exact: max_ub.
Qed.

Lemma max_attained F : I -> (forall i, 0 <= F i) -> exists i, \max_j F j = F i.
Proof. by move=> i0 h; have [i hi] := argmax F i0; exists i; exact: max_eq. Qed.

Lemma max_le F G : (forall i, F i <= G i) -> \max_i F i <= \max_i G i.
Proof.
by move=> h; apply: max_lub => [|i]; [exact: max_ge0 | exact: Rle_trans (h i) (max_ub G i)].
Qed.

Lemma eq_max F G : F =1 G -> \max_i F i = \max_i G i.
Proof. by move=> h; apply: eq_bigr => i _; exact: h. Qed.

Lemma maxZ F k : 0 <= k -> \max_i (k * F i) = k * \max_i F i.
Proof.
move=> hk; rewrite (big_morph (Rmult k) (id1 := 0) (op1 := Rmax)) => [|x y|]; last by ring.
- by [].
- by rewrite RmaxRmult.
Qed.
End FiniteSums.

Lemma sum_exchange (I J : finType) (F : I -> J -> R) :
  \sum_i \sum_j F i j = \sum_j \sum_i F i j.
Proof. exact: exchange_big. Qed.

(** ** Two facts about squares, used throughout *)
Lemma square_le r s : 0 <= s -> r * r <= s * s -> r <= s.
Proof. by move=> hs h; apply: Rnot_lt_le => hlt; move: (Rmult_le_0_lt_compat s r s r); lra. Qed.

Lemma square_ge0 x : 0 <= x * x.
Proof. exact: Rle_0_sqr. Qed.
