(** * Inner products of tokens after a layer with random value maps

    Claim training.gram-recursion, in a finite probability space: outcomes [w] of a finite set
    [Omega] with weights [p].  A layer adds [alpha * \sum_h A_h X W_h] to the tokens [X].  Let the
    entries of all [W_h] together have mean 0, variance [s^2 / (d H)] and no correlation, given [X]
    and the [A_h].  Then the expected Gram matrix after the layer is
      [G + tau / H * \sum_h A_h G A_h^T], where [G = X X^T] and [tau = alpha^2 s^2].

    Idea.  Conditional means are linear, and what is given can be taken out of them
    ([mean_given_known]).  Of the products of two entries the squares alone have a mean other
    than 0. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter Attention.
From AttnVerify Require Import Covariance.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

(** ** Conditional means *)
Section Given.
Variables (Omega : finType) (Known : Type) (p : Omega -> R) (V : Omega -> Known).
Implicit Types (f : Omega -> R) (g a : Known -> R).

(** [g] of [V] is the conditional mean of [f] given [V]: times any function of [V] the two have
    the same mean. *)
Definition mean_given f g : Prop :=
  forall c : Known -> R,
    average p (fun w => c (V w) * f w) = average p (fun w => c (V w) * g (V w)).

Lemma mean_given_eq f f' g g' : f =1 f' -> g =1 g' -> mean_given f g -> mean_given f' g'.
Proof.
move=> hf hg h c; rewrite /average; transitivity (average p (fun w => c (V w) * f w)).
  by apply: eq_bigr => w _; rewrite hf.
by rewrite h; apply: eq_bigr => w _; rewrite hg.
Qed.

Lemma mean_given_refl a : mean_given (fun w => a (V w)) a.
Proof. by []. Qed.

Lemma mean_givenD f f' g g' : mean_given f g -> mean_given f' g' ->
  mean_given (fun w => f w + f' w) (fun v => g v + g' v).
Proof.
move=> h h' c; have := h' c; have := h c; rewrite /average => e e'.
transitivity (\sum_w (p w * (c (V w) * f w)) + \sum_w (p w * (c (V w) * f' w))).
  by rewrite -sumD; apply: eq_bigr => w _; ring.
by rewrite e e' -sumD; apply: eq_bigr => w _; ring.
Qed.

Lemma mean_given_known a f g : mean_given f g ->
  mean_given (fun w => a (V w) * f w) (fun v => a v * g v).
Proof.
move=> h c; have := h (fun v => c v * a v); rewrite /average => e.
transitivity (\sum_w (p w * (c (V w) * a (V w) * f w))); first by apply: eq_bigr => w _; ring.
by rewrite e; apply: eq_bigr => w _; ring.
Qed.

Lemma mean_given_sum (I : finType) (f : I -> Omega -> R) (g : I -> Known -> R) :
  (forall i, mean_given (f i) (g i)) ->
  mean_given (fun w => \sum_i f i w) (fun v => \sum_i g i v).
Proof.
move=> h c; rewrite /average.
transitivity (\sum_i \sum_w (p w * (c (V w) * f i w))).
  by rewrite sum_exchange; apply: eq_bigr => w _; rewrite -!sumZl.
transitivity (\sum_i \sum_w (p w * (c (V w) * g i (V w)))).
  by apply: eq_bigr => i _; exact: h.
by rewrite sum_exchange; apply: eq_bigr => w _; rewrite -!sumZl.
Qed.
End Given.

(** Nothing is given: then the conditional mean is the mean. *)
Definition nothing (Omega : Type) : Omega -> unit := fun _ => tt.

(** ** A layer *)
(** Inner products of tokens: [X X^T]. *)
Definition gram (T K : finType) (X : T -> K -> R) : T -> T -> R := mul X (tr X).

(** [X + alpha * \sum_h A_h X W_h]. *)
Definition value_layer (T K H : finType) (alpha : R) (A : H -> T -> T -> R) (W : H -> K -> K -> R)
  (X : T -> K -> R) : T -> K -> R :=
  fun i k => X i k + alpha * \sum_h mul (mul (A h) X) (W h) i k.

(** Given [V], the entries of all maps together have mean 0 and variance [v], and are
    uncorrelated. *)
Definition random_maps (Omega : finType) (Known : Type) (H K : finType) (p : Omega -> R)
  (V : Omega -> Known) (v : R) (W : Omega -> H -> K -> K -> R) : Prop :=
  (forall h k m, mean_given p V (fun w => W w h k m) (fun _ => 0)) /\
  (forall h k m h' k' m', mean_given p V (fun w => W w h k m * W w h' k' m')
     (fun _ => if [&& h' == h, k' == k & m' == m] then v else 0)).

Section Layer.
Variables (Omega T K H : finType) (Known : Type) (p : Omega -> R) (V : Omega -> Known).
Variables (X : Known -> T -> K -> R) (A : Known -> H -> T -> T -> R).
Variables (W : Omega -> H -> K -> K -> R) (v alpha : R).
Hypothesis random : random_maps p V v W.

(** What the layer adds to feature [q] of token [i], before [alpha]. *)
Let update w i q := \sum_h mul (mul (A (V w) h) (X (V w))) (W w h) i q.

Lemma update_mean i q : mean_given p V (fun w => update w i q) (fun _ => 0).
Proof.
have h0 : mean_given p V (fun w => update w i q)
  (fun x => \sum_h \sum_k (mul (A x h) (X x) i k * 0)).
  apply: mean_given_sum => h; apply: mean_given_sum => k.
  by apply: (mean_given_known (fun x => mul (A x h) (X x) i k)); exact: (proj1 random).
apply: (mean_given_eq _ _ h0) => // x.
by apply: sum_eq0 => h _; apply: sum_eq0 => k _; ring.
Qed.

Lemma update_product i j q : mean_given p V (fun w => update w i q * update w j q)
  (fun x => v * \sum_h gram (mul (A x h) (X x)) i j).
Proof.
set B := fun x h => mul (A x h) (X x).
have h0 : mean_given p V
  (fun w => \sum_h \sum_k \sum_h' \sum_k'
     (B (V w) h i k * B (V w) h' j k' * (W w h k q * W w h' k' q)))
  (fun x => \sum_h \sum_k \sum_h' \sum_k'
     (B x h i k * B x h' j k' * (if [&& h' == h, k' == k & q == q] then v else 0))).
  apply: mean_given_sum => h; apply: mean_given_sum => k.
  apply: mean_given_sum => h'; apply: mean_given_sum => k'.
  by apply: (mean_given_known (fun x => B x h i k * B x h' j k')); exact: (proj2 random).
apply: (mean_given_eq _ _ h0) => [w|x].
- rewrite /update -sumZr; apply: eq_bigr => h _; rewrite -/(B (V w) h) -sumZr.
  apply: eq_bigr => k _; rewrite -sumZl; apply: eq_bigr => h' _.
  by rewrite -/(B (V w) h') -sumZl; apply: eq_bigr => k' _; ring.
- rewrite -sumZl; apply: eq_bigr => h _; rewrite -/(B x h) -sumZl; apply: eq_bigr => k _.
  rewrite /tr -[RHS](sum_delta h (fun h' => v * (B x h i k * B x h' j k))).
  apply: eq_bigr => h' _; case: (h' == h) => /=; last by apply: sum_eq0 => k' _; ring.
  rewrite -[RHS](sum_delta k (fun k' => v * (B x h i k * B x h' j k'))).
  by apply: eq_bigr => k' _; rewrite eqxx andbT; case: (k' == k); ring.
Qed.

Lemma gram_layer i j : mean_given p V
  (fun w => gram (value_layer alpha (A (V w)) (W w) (X (V w))) i j)
  (fun x => gram (X x) i j
    + alpha ^ 2 * (INR #|K| * (v * \sum_h gram (mul (A x h) (X x)) i j))).
Proof.
have h0 : mean_given p V
  (fun w => \sum_q (X (V w) i q * X (V w) j q
     + (alpha * X (V w) i q * update w j q + (alpha * X (V w) j q * update w i q
     + alpha ^ 2 * (update w i q * update w j q)))))
  (fun x => \sum_q (X x i q * X x j q
     + (alpha * X x i q * 0 + (alpha * X x j q * 0
     + alpha ^ 2 * (v * \sum_h gram (mul (A x h) (X x)) i j))))).
  apply: mean_given_sum => q; apply: mean_givenD.
    exact: (mean_given_refl p V (fun x => X x i q * X x j q)).
  apply: mean_givenD.
    by apply: (mean_given_known (fun x => alpha * X x i q)); exact: update_mean.
  apply: mean_givenD.
    by apply: (mean_given_known (fun x => alpha * X x j q)); exact: update_mean.
  by apply: (mean_given_known (fun _ => alpha ^ 2)); exact: update_product.
apply: (mean_given_eq _ _ h0) => [w|x].
- rewrite [RHS]/gram [RHS]/mul; apply: eq_bigr => q _.
  by rewrite /tr /value_layer -/(update w i q) -/(update w j q); ring.
- set c := v * _; rewrite sumD; congr (_ + _).
  have -> : alpha ^ 2 * (INR #|K| * c) = INR #|K| * (alpha ^ 2 * c) by ring.
  by rewrite -sum_const; apply: eq_bigr => q _; ring.
Qed.
End Layer.

(** ** Claim training.gram-recursion *)
Lemma gram_mul (T K : finType) (A : T -> T -> R) (X : T -> K -> R) :
  gram (mul A X) = mul A (mul (gram X) (tr A)).
Proof. by rewrite /gram tr_mul !mulA. Qed.

(** The width times the variance; both sides vanish where there is no feature, or no head. *)
Lemma width_times_variance (T K H : finType) (A : H -> T -> T -> R) (X : T -> K -> R) s i j :
  INR #|K| * (s ^ 2 / (INR #|K| * INR #|H|) * \sum_h gram (mul (A h) X) i j)
  = s ^ 2 / INR #|H| * \sum_h gram (mul (A h) X) i j.
Proof.
case: (Req_dec (INR #|K|) 0) => hK.
  rewrite (_ : \sum_h _ = 0); first by ring.
  apply: sum_eq0 => h _; apply: sum_eq0 => k _.
  by case: (fintype0 k); apply: INR_eq; rewrite hK.
case: (Req_dec (INR #|H|) 0) => hH; last by field.
rewrite (_ : \sum_h _ = 0); first by ring.
by apply: sum_eq0 => h _; case: (fintype0 h); apply: INR_eq; rewrite hH.
Qed.

Theorem gram_recursion (Omega T K H : finType) (Known : Type) (p : Omega -> R) (V : Omega -> Known)
  (X : Known -> T -> K -> R) (A : Known -> H -> T -> T -> R) (W : Omega -> H -> K -> K -> R)
  (alpha s : R) :
  weights p -> random_maps p V (s ^ 2 / (INR #|K| * INR #|H|)) W ->
  forall i j, mean_given p V
    (fun w => gram (value_layer alpha (A (V w)) (W w) (X (V w))) i j)
    (fun x => gram (X x) i j
      + alpha ^ 2 * s ^ 2 / INR #|H| * \sum_h mul (A x h) (mul (gram (X x)) (tr (A x h))) i j).
Proof.
move=> _ hW i j; apply: (mean_given_eq _ _ (gram_layer X A alpha hW i j)) => // x.
rewrite width_times_variance; congr (_ + _).
under [in RHS]eq_bigr => h _ do rewrite -gram_mul.
by rewrite /Rdiv; ring.
Qed.

(** ** Near neighbors *)
Definition sign (b : bool) : R := if b then 1 else -1.

Lemma square_root2 : sqrt 2 ^ 2 = 2.
Proof. by rewrite /= Rmult_1_r sqrt_sqrt //; lra. Qed.

Lemma fair : weights (two_weights (1 / 2)).
Proof. by apply: weights_two; lra. Qed.

Lemma card_unit1 : INR #|unit_finType| = 1.
Proof. by rewrite card_unit. Qed.

Lemma card_bool2 : INR #|bool_finType| = 2.
Proof. by rewrite card_bool /=; lra. Qed.

(** Maps of this kind exist for every width and number of heads: one entry, drawn at random, is
    not 0, and its sign is random. *)
Section OneEntry.
Variables (H K : finType) (v : R).
Let entries : finType := prod_finType (prod_finType H K) K.
Let outcomes : finType := prod_finType bool_finType entries.

Definition evenly (Omega : finType) : Omega -> R := fun _ => / INR #|Omega|.
Definition one_entry (w : outcomes) : H -> K -> K -> R :=
  fun h k m => if w.2 == (h, k, m) then sign w.1 * sqrt (v * INR #|entries|) else 0.

Lemma evenly_weights (Omega : finType) : Omega -> weights (@evenly Omega).
Proof.
move=> w; have h0 : 0 < INR #|Omega| by apply: lt_0_INR; apply/ltP/card_gt0P; exists w.
split=> [w'|]; first by apply: Rlt_le; exact: Rinv_0_lt_compat.
by rewrite /evenly sum_const; field; lra.
Qed.

Lemma one_entry_random : 0 <= v ->
  random_maps (@evenly outcomes) (@nothing outcomes) v one_entry.
Proof.
move=> hv; set N := INR #|entries|.
have hN : INR #|outcomes| = 2 * N by rewrite card_prod card_bool mult_INR.
have sum2 (F : outcomes -> R) : \sum_w F w = \sum_(e : entries) (F (true, e) + F (false, e)).
  rewrite sumD; transitivity (\sum_b \sum_(e : entries) F (b, e)); last exact: big_bool.
  by rewrite pair_bigA; apply: eq_bigr => -[b e] _.
split=> [h k m c|h k m h' k' m' c]; rewrite /average !sum2.
- apply: eq_bigr => e _; rewrite /one_entry /sign /nothing /evenly /=.
  by case: (e == _); ring.
- transitivity (\sum_(e : entries) (if e == (h, k, m) then
      2 * / (2 * N) * c tt * (if [&& h' == h, k' == k & m' == m] then v * N else 0) else 0)).
    apply: eq_bigr => e _; rewrite /one_entry /sign /nothing /evenly hN /=.
    case: eqP => [->|_]; last by ring.
    rewrite !xpair_eqE -andbA (eq_sym h) (eq_sym k) (eq_sym m).
    case: ifP => _; last by ring.
    have := sqrt_sqrt (v * N) ltac:(apply: Rmult_le_pos => //; exact: pos_INR).
    by move: (sqrt _) => r <-; ring.
  have hN0 : N <> 0.
    by apply: not_0_INR => h0; case: (fintype0 ((h, k, m) : entries)).
  rewrite (sum_delta (h, k, m) (fun _ => _)) /evenly hN.
  transitivity (\sum_(e : entries)
      (/ N * (c tt * (if [&& h' == h, k' == k & m' == m] then v else 0)))).
    by rewrite sum_const -/N; case: ifP => _; field.
  by apply: eq_bigr => e _; rewrite /nothing; field.
Qed.
End OneEntry.

(** Uncorrelated within each head alone: two heads have one map, a fair coin. *)
Theorem not_within_heads :
  ~ (forall (Omega T K H : finType) (Known : Type) (p : Omega -> R) (V : Omega -> Known)
       (X : Known -> T -> K -> R) (A : Known -> H -> T -> T -> R) (W : Omega -> H -> K -> K -> R)
       (alpha s : R),
     weights p ->
     (forall h, random_maps (H := unit_finType) p V (s ^ 2 / (INR #|K| * INR #|H|))
       (fun w _ => W w h)) ->
     forall i j, mean_given p V
       (fun w => gram (value_layer alpha (A (V w)) (W w) (X (V w))) i j)
       (fun x => gram (X x) i j
         + alpha ^ 2 * s ^ 2 / INR #|H| * \sum_h mul (A x h) (mul (gram (X x)) (tr (A x h))) i j)).
Proof.
move=> h; pose W (w _ : bool) (_ _ : unit) := sign w.
have hW : forall h' : bool, random_maps (H := unit_finType) (two_weights (1 / 2)) (@nothing bool)
    (sqrt 2 ^ 2 / (INR #|unit_finType| * INR #|bool_finType|)) (fun w _ => W w h').
  move=> h'; rewrite square_root2 card_unit1 card_bool2; split=> [[] [] [] c|[] [] [] [] [] [] c];
    by rewrite /average !big_bool /two_weights /W /sign /nothing ?eqxx /=; field.
have := h _ _ _ _ _ _ _ (fun _ _ _ => 1) (fun _ _ _ _ => 1) W 1 _ fair hW tt tt (fun _ => 1).
rewrite /average /gram /value_layer /mul /tr !big_bool !sum_unit !big_bool !sum_unit card_bool2.
by rewrite square_root2 /two_weights /W /sign /=; lra.
Qed.

(** [A_h G] in place of [A_h G A_h^T]. *)
Theorem not_mixed_once :
  ~ (forall (Omega T K H : finType) (Known : Type) (p : Omega -> R) (V : Omega -> Known)
       (X : Known -> T -> K -> R) (A : Known -> H -> T -> T -> R) (W : Omega -> H -> K -> K -> R)
       (alpha s : R),
     weights p -> random_maps p V (s ^ 2 / (INR #|K| * INR #|H|)) W ->
     forall i j, mean_given p V
       (fun w => gram (value_layer alpha (A (V w)) (W w) (X (V w))) i j)
       (fun x => gram (X x) i j
         + alpha ^ 2 * s ^ 2 / INR #|H| * \sum_h mul (A x h) (gram (X x)) i j)).
Proof.
move=> h; pose W (w : bool) (_ _ _ : unit) := sign w.
have hW : random_maps (two_weights (1 / 2)) (@nothing bool)
    (1 ^ 2 / (INR #|unit_finType| * INR #|unit_finType|)) W.
  rewrite card_unit1; split=> [[] [] [] c|[] [] [] [] [] [] c];
    by rewrite /average !big_bool /two_weights /W /sign /nothing ?eqxx /=; field.
have := h _ _ _ _ _ _ _ (fun _ _ _ => 1) (fun _ _ _ _ => 2) W 1 _ fair hW tt tt (fun _ => 1).
rewrite /average /gram /value_layer /mul /tr !big_bool !sum_unit card_unit1.
by rewrite /two_weights /W /sign /=; lra.
Qed.
