(** * Heads, layers and networks of self-attention

    The definitions, and the two facts about biases that every later proof uses.

    There are finite sets of tokens [T], features [K] (the width d), key coordinates [D] (there are
    d_qk of them), value coordinates [V] and heads [H].  A head has the matrices and biases of
    queries, keys and values and the output matrix; a layer is a family of heads and an output bias;
    a network is a sequence of layers, and [states net X l] are the tokens after the first [l].

    Proved here: claim attention.qk-reduction, that the key bias has no effect; and that all biases
    cancel in the difference of two logits of two queries ([logit_differences]). *)
From AttnVerify Require Import Sums Softmax Vectors Matrices.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Section Definitions.
Variables T K D V H : finType.

Record head := Head {
  WQ : K -> D -> R; bQ : D -> R;
  WK : K -> D -> R; bK : D -> R;
  WV : K -> V -> R; bV : V -> R;
  WO : V -> K -> R }.

Record layer := Layer { heads : H -> head; bO : K -> R }.

(** The matrix [X W + 1 b^T]. *)
Definition affine (I J : finType) (X : T -> I -> R) (W : I -> J -> R) (b : J -> R) : T -> J -> R :=
  fun i j => mul X W i j + b j.

(** The square root of d_qk, the number of key coordinates. *)
Definition root_key_width : R := sqrt (INR #|D|).

(** [(X WQ + 1 bQ^T) (X WK + 1 bK^T)^T / sqrt d_qk] *)
Definition logits (h : head) (X : T -> K -> R) : T -> T -> R :=
  fun i j => mul (affine X (WQ h) (bQ h)) (tr (affine X (WK h) (bK h))) i j / root_key_width.

(** The attention matrix: softmax of every row of logits. *)
Definition attention (h : head) (X : T -> K -> R) : T -> T -> R :=
  fun i => softmax (logits h X i).

(** [P (X WV + 1 bV^T) WO] *)
Definition head_output (h : head) (X : T -> K -> R) : T -> K -> R :=
  mul (mul (attention h X) (affine X (WV h) (bV h))) (WO h).

(** [SA (X)], the sum over the heads plus the output bias in every row. *)
Definition self_attention (L : layer) (X : T -> K -> R) : T -> K -> R :=
  fun i k => \sum_h head_output (heads L h) X i k + bO L k.

(** [WQK = WQ WK^T] and the value matrix [WV WO] of a head, the book's [W_h]. *)
Definition WQK (h : head) : K -> K -> R := mul (WQ h) (tr (WK h)).
Definition WVO (h : head) : K -> K -> R := mul (WV h) (WO h).

(** The tokens after [l] layers of a network. *)
Fixpoint states (net : nat -> layer) (X : T -> K -> R) (l : nat) : T -> K -> R :=
  match l with O => X | S l => self_attention (net l) (states net X l) end.

(** The same with skip connections. *)
Definition skip_layer (L : layer) (X : T -> K -> R) : T -> K -> R := add X (self_attention L X).
Fixpoint skip_states (net : nat -> layer) (X : T -> K -> R) (l : nat) : T -> K -> R :=
  match l with O => X | S l => skip_layer (net l) (skip_states net X l) end.
End Definitions.

Arguments root_key_width D : clear implicits.

Lemma root_ge0 (D : finType) : 0 <= root_key_width D. Proof. exact: sqrt_pos. Qed.

(** No key coordinate at all would make the root 0; Coq's [/ 0] is 0, and so is every logit. *)
Lemma inv_root_ge0 (D : finType) : 0 <= / root_key_width D.
Proof.
case: (Rle_lt_or_eq_dec _ _ (root_ge0 D)) => [h|<-]; last by rewrite Rinv_0; lra.
by apply: Rlt_le; exact: Rinv_0_lt_compat.
Qed.

Lemma root_gt0 (D : finType) : D -> 0 < root_key_width D.
Proof.
move=> x; apply: sqrt_lt_R0; have : (0 < #|D|)%nat by apply/card_gt0P; exists x.
by move/ltP => h; exact: lt_0_INR.
Qed.

Section Logits.
Variables T K D V : finType.
Implicit Types (h : head K D V) (X : T -> K -> R).

Lemma affine_row (I J : finType) (X : T -> I -> R) (W : I -> J -> R) b i j :
  vsub (affine X W b i) (affine X W b j) = lin W (vsub (X i) (X j)).
Proof.
apply: functional_extensionality => k; rewrite linB /vsub /affine /mul /lin; ring.
Qed.

(** The logit is the reduced one, of [WQK] and [bQK = WK bQ], plus a term that does not depend on
    the key [j]. *)
Lemma logit_reduced h X i j :
  logits h X i j
    = mul (affine X (WQK h) (lin (tr (WK h)) (bQ h))) (tr X) i j / root_key_width D
      + dot (affine X (WQ h) (bQ h) i) (bK h) / root_key_width D.
Proof.
rewrite /logits /Rdiv -Rmult_plus_distr_r; congr (_ * _).
have -> : mul (affine X (WQ h) (bQ h)) (tr (affine X (WK h) (bK h))) i j
  = dot (affine X (WQ h) (bQ h) i) (lin (WK h) (X j)) + dot (affine X (WQ h) (bQ h) i) (bK h).
  by rewrite -dotDr.
congr (_ + _); rewrite -[WK h in LHS]trK -(dot_lin (tr (WK h))).
apply: eq_bigr => k _; congr (_ * _); rewrite /affine /WQK !mul_row.
rewrite -[lin (mul _ _) (X i) k]/(lin (mul (WQ h) (tr (WK h))) (X i) k) lin_mul.
rewrite /lin -sumD; apply: eq_bigr => d _; rewrite -/(lin (WQ h) (X i) d) /mul /lin; ring.
Qed.

(** ** Claim attention.qk-reduction *)
Theorem qk_reduction h X :
  let bQK := lin (tr (WK h)) (bQ h) in
  attention h X
    = fun i => softmax (fun j => mul (affine X (WQK h) bQK) (tr X) i j / root_key_width D).
Proof.
move=> bQK; apply: functional_extensionality => i; rewrite /attention.
rewrite -[RHS](shift_invariance _ (dot (affine X (WQ h) (bQ h) i) (bK h) / root_key_width D)).
by congr softmax; apply: functional_extensionality => j; rewrite logit_reduced.
Qed.

(** Two queries, two keys: no bias is left in the difference of the differences. *)
Theorem logit_differences h X i k j l :
  (logits h X i j - logits h X k j) - (logits h X i l - logits h X k l)
    = dot (lin (WQK h) (vsub (X i) (X k))) (vsub (X j) (X l)) / root_key_width D.
Proof.
have e i' j' : logits h X i' j' = dot (affine X (WQ h) (bQ h) i') (affine X (WK h) (bK h) j')
  / root_key_width D by [].
rewrite !e /Rdiv /WQK lin_mul dot_lin trK.
rewrite -(affine_row X (WQ h) (bQ h)) -(affine_row X (WK h) (bK h)).
by rewrite dotBl !dotBr; ring.
Qed.

Lemma attention_sum1 h X i : \sum_j attention h X i j = 1.
Proof. exact: softmax_sum1. Qed.

(** The value bias passes the attention: its row is the same for every token. *)
Lemma head_output_row h X i k :
  head_output h X i k
    = mul (mul (attention h X) X) (WVO h) i k + lin (WO h) (bV h) k.
Proof.
have e : mul (attention h X) (affine X (WV h) (bV h))
  = fun i v => mul (mul (attention h X) X) (WV h) i v + bV h v.
  apply: matrix_eq => i' v; rewrite -mulA /affine {1}/mul.
  under eq_bigr => j _ do rewrite Rmult_plus_distr_l.
  by rewrite sumD sumZr attention_sum1 Rmult_1_l.
rewrite /head_output e /WVO mulA {1}/mul /lin -sumD.
by apply: eq_bigr => v _; ring.
Qed.
End Logits.

(** ** Layers *)
Section Layers.
Variables T K D V H : finType.
Implicit Types (L : layer K D V H) (X : T -> K -> R).

(** The bias of a layer as a whole: [\sum_h WO^T bV + bO]. *)
Definition layer_bias L : K -> R :=
  fun k => \sum_h lin (WO (heads L h)) (bV (heads L h)) k + bO L k.

Theorem self_attention_split L X i k :
  self_attention L X i k
    = \sum_h mul (mul (attention (heads L h) X) X) (WVO (heads L h)) i k + layer_bias L k.
Proof.
rewrite /self_attention /layer_bias -Rplus_assoc -sumD; congr (_ + _).
by apply: eq_bigr => h _; exact: head_output_row.
Qed.

Lemma self_attention_matrix L X :
  self_attention L X
    = add (fun i k => \sum_h mul (mul (attention (heads L h) X) X) (WVO (heads L h)) i k)
          (constant_rows (layer_bias L)).
Proof. by apply: matrix_eq => i k; exact: self_attention_split. Qed.

(** Two rows of the output differ by terms without biases. *)
Lemma self_attention_rows L X i j :
  vsub (self_attention L X i) (self_attention L X j)
    = fun k => \sum_h vsub (mul (mul (attention (heads L h) X) X) (WVO (heads L h)) i)
                           (mul (mul (attention (heads L h) X) X) (WVO (heads L h)) j) k.
Proof.
by apply: functional_extensionality => k; rewrite /vsub !self_attention_split sumB; ring.
Qed.
End Layers.

(** ** Near neighbors of claim attention.qk-reduction

    Two tokens 0 and 1 of one feature; all weight matrices 1. *)
Section Neighbors.
Local Notation unit := unit_finType.
Let one : unit -> unit -> R := fun _ _ => 1.
Let tokens : bool -> unit -> R := fun b _ => if b then 1 else 0.
Let head_with (query key : R) : head unit unit unit :=
  Head one (fun _ => query) one (fun _ => key) one (fun _ => 0) one.

Lemma sum_unit (F : unit -> R) : \sum_i F i = F tt.
Proof. by rewrite (bigD1 tt) //= big_pred0 => [|[]] //; ring. Qed.

Lemma reduced_logit (b : R) i j :
  mul (affine tokens (WQK (head_with 1 1)) (fun _ => b)) (tr tokens) i j / root_key_width unit
    = (tokens i tt + b) * tokens j tt.
Proof.
rewrite /root_key_width card_unit sqrt_1 /mul sum_unit /affine /mul sum_unit /WQK /mul sum_unit.
by rewrite /tr /= /one; field.
Qed.

(** All bias terms dropped. *)
Theorem query_bias_needed :
  ~ (forall (T K D V : finType) (h : head K D V) (X : T -> K -> R),
       attention h X
         = fun i => softmax (fun j => mul (mul X (WQK h)) (tr X) i j / root_key_width D)).
Proof.
move=> h; have := f_equal (fun P => P false) (h _ _ _ _ (head_with 1 1) tokens).
rewrite (qk_reduction (head_with 1 1) tokens) => /shift_only /(_ true false).
have -> : lin (tr (WK (head_with 1 1))) (bQ (head_with 1 1)) = fun _ => 1.
  by apply: functional_extensionality => k; rewrite /lin sum_unit /= /one /tr; ring.
have -> : mul tokens (WQK (head_with 1 1)) = affine tokens (WQK (head_with 1 1)) (fun _ => 0).
  by apply: matrix_eq => i j; rewrite /affine; ring.
by rewrite !reduced_logit /=; lra.
Qed.

(** The key bias kept in place of the query bias. *)
Theorem key_bias_is_wrong :
  ~ (forall (T K D V : finType) (h : head K D V) (X : T -> K -> R),
       let b := lin (tr (WQ h)) (bK h) in
       attention h X
         = fun i => softmax (fun j => mul (affine X (WQK h) b) (tr X) i j / root_key_width D)).
Proof.
move=> h; have := f_equal (fun P => P false) (h _ _ _ _ (head_with 1 0) tokens).
rewrite (qk_reduction (head_with 1 0) tokens) => /shift_only /(_ true false).
have -> : lin (tr (WK (head_with 1 0))) (bQ (head_with 1 0)) = fun _ => 1.
  by apply: functional_extensionality => k; rewrite /lin sum_unit /= /one /tr; ring.
have -> : lin (tr (WQ (head_with 1 0))) (bK (head_with 1 0)) = fun _ => 0.
  by apply: functional_extensionality => k; rewrite /lin sum_unit /= /one /tr; ring.
by rewrite -[WQK _]/(WQK (head_with 1 1)) !reduced_logit /=; lra.
Qed.
End Neighbors.
