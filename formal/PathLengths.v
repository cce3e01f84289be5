(** * How many paths of each length, and their sums layer by layer

    Claims paths.count and paths.length-recursion.  With skip connections a path chooses [None] or a
    head in every layer; its length is the number of heads.  There are [C(L, m) |H|^m] paths of
    length [m] through [L] layers and [(1 + |H|)^L] in all.  The sum [by_length l m] of the terms of
    all paths of length [m] through the first [l] layers obeys a recursion that costs
    [|H| L (L + 1) / 2] products for all sums. *)
From mathcomp Require Import binomial.
From AttnVerify Require Import Sums Softmax Vectors Matrices Diameter Attention Stochastic Paths.
Require Import FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.

Local Notation "m ^ n" := (expn m n) : nat_scope.

Definition path_length (H : finType) (p : seq (option H)) : nat := count isSome p.
Notation skip_path H L := (path [finType of option H] L).

Lemma path_length_rcons (H : finType) p (o : option H) :
  path_length (rcons p o) = (path_length p + o)%nat.
Proof. by rewrite /path_length -cats1 count_cat /= addn0. Qed.

Lemma path_length_le (H : finType) L (p : skip_path H L) : (path_length p <= L)%nat.
Proof. by rewrite -[X in (_ <= X)%nat](size_tuple p) count_size. Qed.

(** A sum over [None] and all [Some h], for numbers. *)
Lemma sumn_option (H : finType) (F : option H -> nat) :
  (\sum_(o : option H) F o = F None + \sum_h F (Some h))%nat.
Proof.
have hp : perm_eq (index_enum [finType of option H]) (None :: map Some (index_enum H)).
  apply: uniq_perm; first exact: index_enum_uniq.
    rewrite /= map_inj_uniq ?index_enum_uniq ?andbT; last by move=> x y [].
    by apply/negP => /mapP [].
  move=> [h|]; rewrite mem_index_enum; symmetry => //.
  by rewrite in_cons map_f ?orbT // mem_index_enum.
by rewrite (perm_big _ hp) big_cons big_map.
Qed.

(** ** Claim paths.count *)
Lemma count_by_length (H : finType) L m :
  (\sum_(p : skip_path H L) (path_length p == m) = 'C(L, m) * #|H| ^ m)%nat.
Proof.
elim: L m => [|L IH] m.
  rewrite (big_path0 _ (fun p : seq (option H) => nat_of_bool (path_length p == m))) /=.
  by case: m => [|m]; rewrite ?bin0 ?expn0 // bin0n.
rewrite (big_paths _ L (fun p : seq (option H) => nat_of_bool (path_length p == m))).
rewrite sumn_option.
under eq_bigr => p _ do rewrite path_length_rcons addn0.
rewrite IH.
under [X in (_ + X)%nat]eq_bigr => h _ do under eq_bigr => p _ do rewrite path_length_rcons addn1.
rewrite sum_nat_const; case: m => [|m]; first by rewrite big1_eq muln0 addn0 !bin0.
under eq_bigr => p _ do rewrite eqSS.
by rewrite IH binS expnS mulnDl; congr (_ + _)%nat; exact: mulnCA.
Qed.

Theorem path_count (H : finType) (L : nat) :
  (forall m, #|[pred p : skip_path H L | path_length p == m]| = ('C(L, m) * #|H| ^ m)%nat) /\
  #|skip_path H L| = ((1 + #|H|) ^ L)%nat.
Proof.
split=> [m|]; last by rewrite card_tuple card_option.
by rewrite -count_by_length -sum1_card big_mkcond /=; apply: eq_bigr => p _; rewrite inE; case: eqP.
Qed.

(** Near neighbors: heads counted once, and [H^L] paths in all. *)
Theorem not_count_once :
  ~ (forall (H : finType) (L m : nat),
       #|[pred p : skip_path H L | path_length p == m]| = ('C(L, m) * #|H|)%nat).
Proof. by move=> h; have := h bool_finType 2 2; rewrite (path_count _ 2).1 card_bool. Qed.

Theorem not_total_without_skip :
  ~ (forall (H : finType) (L : nat), #|skip_path H L| = (#|H| ^ L)%nat).
Proof. by move=> h; have := h bool_finType 1; rewrite (path_count _ 1).2 card_bool. Qed.

(** ** Claim paths.length-recursion *)
Local Open Scope R_scope.

Section Recursion.
Variables T K H : finType.
Variables (P : nat -> H -> T -> T -> R) (W : nat -> H -> K -> K -> R) (X : T -> K -> R).

(** The sum of the terms of all paths of length [m] through the first [l] layers. *)
Definition by_length (l m : nat) : T -> K -> R :=
  fun i k => \sum_(p : skip_path H l | path_length p == m)
    path_term (with_skip P : nat -> [finType of option H] -> _) (with_skip W) X p i k.

Lemma by_length_mkcond l m i k :
  by_length l m i k = \sum_(p : skip_path H l) if path_length p == m then
    path_term (with_skip P : nat -> [finType of option H] -> _) (with_skip W) X p i k else 0.
Proof. by rewrite /by_length big_mkcond. Qed.

Lemma by_length_step l m i k :
  by_length (S l) m i k = by_length l m i k
    + \sum_h (if m is S m' then mul (mul (P l h) (by_length l m')) (W l h) i k else 0).
Proof.
rewrite !by_length_mkcond.
rewrite (big_paths _ l (fun p => if path_length p == m then path_term
  (with_skip P : nat -> [finType of option H] -> _) (with_skip W) X p i k else 0)).
rewrite sum_option; congr (_ + _); apply: eq_bigr.
- move=> p _; rewrite path_length_rcons addn0; case: eqP => // _.
  by rewrite path_term_rcons /= mul1l mul1r.
- move=> h _; case: m => [|m].
    by rewrite sum_eq0 // => p _; rewrite path_length_rcons addn1.
  transitivity (\sum_(p : skip_path H l | path_length p == m) mul (mul (P l h) (path_term
    (with_skip P : nat -> [finType of option H] -> _) (with_skip W) X p)) (W l h) i k).
    rewrite [RHS]big_mkcond; apply: eq_bigr => p _; rewrite path_length_rcons addn1 eqSS.
    by case: eqP => // _; rewrite path_term_rcons.
  rewrite /mul /by_length.
  under [RHS]eq_bigr => j _.
    under eq_bigr => t _ do rewrite -sumZl.
    rewrite exchange_big -sumZr; over.
  by rewrite exchange_big.
Qed.
End Recursion.

Theorem length_recursion (T K H : finType) (P : nat -> H -> T -> T -> R)
    (W : nat -> H -> K -> K -> R)
    (X : T -> K -> R) :
  let S := by_length P W X in
  S 0%nat 0%nat = X /\
  (forall l, S l.+1 0%nat = S l 0%nat) /\
  (forall l m, S l.+1 m.+1
     = add (S l m.+1) (fun i k => \sum_h mul (mul (P l h) (S l m)) (W l h) i k)) /\
  (forall l m, (l < m)%nat -> S l m = zero) /\
  (forall L, (2 * (\sum_(l < L) #|H| * l.+1) = #|H| * L * L.+1)%nat).
Proof.
move=> S; split; last split; last split; last split.
- apply: matrix_eq => i k;
  rewrite /S by_length_mkcond (big_path0 _ (fun p => if path_length p == 0%nat
    then path_term (with_skip P : nat -> [finType of option H] -> _) (with_skip W) X p i k else
      0)) /=.
  by rewrite /path_term /= mul1l mul1r.
- by move=> l; apply: matrix_eq => i k; rewrite /S by_length_step sum0 Rplus_0_r.
- by move=> l m; apply: matrix_eq => i k; rewrite /S by_length_step.
- move=> l m h; apply: matrix_eq => i k; rewrite /S by_length_mkcond sum_eq0 // => p _.
  by case: eqP => // e; have := path_length_le p; rewrite e leqNgt h.
- elim=> [|L IH]; first by rewrite big_ord0 !muln0.
  rewrite big_ord_recr /= mulnDr IH (mulnCA 2%nat) -!mulnA -mulnDr -mulnDl addn2.
  by rewrite (mulnC L.+2).
Qed.

(** Near neighbor: [S^(l)_m] in place of [S^(l)_(m-1)] under the heads. *)
Theorem not_same_length :
  ~ (forall (T K H : finType) (P : nat -> H -> T -> T -> R) (W : nat -> H -> K -> K -> R)
       (X : T -> K -> R) l m,
       by_length P W X l.+1 m.+1 = add (by_length P W X l m.+1)
         (fun i k => \sum_h mul (mul (P l h) (by_length P W X l m.+1)) (W l h) i k)).
Proof.
pose one : unit_finType -> unit_finType -> R := fun _ _ => 1.
pose P (l : nat) (_ : unit_finType) := one.
move=> /(_ _ _ _ P P one 0%nat 0%nat) h.
have [h00 [_ [hS [h0 _]]]] := length_recursion P P one.
have z01 : by_length P P one 0%nat 1%nat = zero by exact: h0.
have := f_equal (fun A => A tt tt) h; rewrite hS z01 h00 /add !sum_unit /mul !sum_unit.
by rewrite /P /one /zero; lra.
Qed.
