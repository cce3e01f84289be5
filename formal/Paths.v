(** * A self-attention network is a sum over paths

    Claims paths.decomposition and paths.skip-decomposition, for any depth, any number of heads and
    all biases.  A path chooses one head in every layer.  Its term is

      [P^L_{h_L} ... P^1_{h_1} X W^1_{h_1} ... W^L_{h_L}]

    with the attention matrices of the forward pass and [W = WV WO]; the network is the sum of the
    terms of all paths, plus one row [b] that is the same for every token, and

      [b = \sum_l b_l \prod_(m > l) (\sum_h W^m_h)], the factors in the order of the layers.

    Layers are counted from 0 here.  With skip connections a path may also choose [None] in a layer,
    whose two matrices are identities.

    The proof is an induction on the depth: a path through [L + 1] layers is a path through [L]
    layers and a head of the last one ([big_paths]). *)
From AttnVerify Require Import Sums Softmax Vectors Matrices Diameter Attention Stochastic.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Canonical mul_monoid (K : finType) :=
  Monoid.Law (@mulA K K K K) (@mul1l K K) (@mul1r K K).

(** ** Paths, and sums over all of them *)
Definition path (H : finType) (L : nat) : finType := [finType of L.-tuple H].

Lemma big_paths (R' : Type) (idx : R') (op : Monoid.com_law idx) (H : finType) L (F : seq H -> R') :
  \big[op/idx]_(p : path H (S L)) F p
    = \big[op/idx]_(h : H) \big[op/idx]_(p : path H L) F (rcons p h).
Proof.
rewrite exchange_big pair_bigA /=.
pose join (q : path H L * H) : path H (S L) := [tuple of rcons q.1 q.2].
pose split (p : path H (S L)) : path H L * H :=
  ([tuple of belast (thead p) (behead p)], last (thead p) (behead p)).
rewrite (reindex join) //; exists split => [[p h] _|p _].
- rewrite /split /join; congr (_, _).
    apply: val_inj; case: p => s hs; rewrite /= /thead /tnth /=.
    by case: s hs => [|x s] hs //=; rewrite ?belast_rcons.
  by case: p => s hs; rewrite /thead /tnth /=; case: s hs => [|x s] hs //=; rewrite last_rcons.
- by apply: val_inj; rewrite /= -lastI; case/tupleP: p => x s; rewrite theadE.
Qed.

Lemma big_path0 (R' : Type) (idx : R') (op : Monoid.com_law idx) (H : finType) (F : seq H -> R') :
  \big[op/idx]_(p : path H 0) F p = F [::].
Proof.
rewrite (bigD1 [tuple]) //= big_pred0 ?Monoid.mulm1 // => p.
by apply/negbTE; rewrite negbK; apply/eqP; exact: tuple0.
Qed.

(** ** The matrices along a path *)
Section Terms.
Variables T K H : finType.
Variables (P : nat -> H -> T -> T -> R) (W : nat -> H -> K -> K -> R) (b : nat -> K -> R).

(** [l] is the number of the layer of the first head of the path. *)
Fixpoint left_product (l : nat) (p : seq H) : T -> T -> R :=
  match p with [::] => ident | h :: p => mul (left_product (S l) p) (P l h) end.
Fixpoint right_product (l : nat) (p : seq H) : K -> K -> R :=
  match p with [::] => ident | h :: p => mul (W l h) (right_product (S l) p) end.

(** [P^L_{h_L} ... P^1_{h_1} X W^1_{h_1} ... W^L_{h_L}] *)
Definition path_term (X : T -> K -> R) (p : seq H) : T -> K -> R :=
  mul (mul (left_product 0 p) X) (right_product 0 p).

Lemma left_product_rcons l p h :
  left_product l (rcons p h) = mul (P (Nat.add l (size p)) h) (left_product l p).
Proof.
elim: p l => [|x p IH] l /=; first by rewrite mul1l mul1r Nat.add_0_r.
by rewrite IH -mulA Nat.add_succ_r.
Qed.

Lemma right_product_rcons l p h :
  right_product l (rcons p h) = mul (right_product l p) (W (Nat.add l (size p)) h).
Proof.
elim: p l => [|x p IH] l /=; first by rewrite mul1l mul1r Nat.add_0_r.
by rewrite IH mulA Nat.add_succ_r.
Qed.

Lemma path_term_rcons X L (p : path H L) h :
  path_term X (rcons p h) = mul (mul (P L h) (path_term X p)) (W L h).
Proof.
rewrite /path_term left_product_rcons right_product_rcons (size_tuple p) !mulA.
by rewrite /path_term.
Qed.

(** A network of layers [X -> \sum_h P^l_h X W^l_h + 1 b_l^T] with given matrices. *)
Definition path_layer (l : nat) (X : T -> K -> R) : T -> K -> R :=
  add (fun i k => \sum_h mul (mul (P l h) X) (W l h) i k) (constant_rows (b l)).
Fixpoint run (X : T -> K -> R) (L : nat) : T -> K -> R :=
  match L with O => X | S l => path_layer l (run X l) end.

Definition head_sum (m : nat) : K -> K -> R := fun i j => \sum_h W m h i j.

Definition path_bias (L : nat) : K -> R :=
  fun k => \sum_(l < L) lin (\big[mul/ident]_(S l <= m < L) head_sum m) (b l) k.

Lemma lin_sum (J M N : finType) (A : M -> N -> R) (F : J -> M -> R) :
  lin A (fun k => \sum_j F j k) = fun n => \sum_j lin A (F j) n.
Proof.
apply: functional_extensionality => n; rewrite /lin sum_exchange.
by apply: eq_bigr => m _; rewrite sumZr.
Qed.

Lemma path_bias_step L : path_bias (S L) = fun k => lin (head_sum L) (path_bias L) k + b L k.
Proof.
apply: functional_extensionality => k; rewrite /path_bias big_ord_recr /=; congr (_ + _).
- rewrite (lin_sum (head_sum L)); apply: eq_bigr => l _.
  by rewrite big_nat_recr ?lin_mul //; exact: ltn_ord.
- by rewrite big_geq // lin_ident.
Qed.

Theorem run_is_sum_over_paths : (forall l h i, \sum_j P l h i j = 1) ->
  forall X L, run X L = add (fun i k => \sum_(p : path H L) path_term X p i k)
                            (constant_rows (path_bias L)).
Proof.
move=> hP X; elim=> [|L IH] /=.
  apply: matrix_eq => i k; rewrite /add (big_path0 _ (fun p => path_term X p i k)).
  by rewrite /constant_rows /path_bias big_ord0 /path_term /= mul1l mul1r; ring.
apply: matrix_eq => i k; rewrite /path_layer /add.
rewrite (big_paths _ L (fun p => path_term X p i k)) path_bias_step {2}/constant_rows -Rplus_assoc.
congr (_ + _).
have -> : lin (head_sum L) (path_bias L) k = \sum_h lin (W L h) (path_bias L) k.
  rewrite /lin /head_sum sum_exchange; apply: eq_bigr => m _; rewrite -sumZl.
  by apply: eq_bigr => h _.
rewrite -sumD; apply: eq_bigr => h _.
rewrite IH mulDr mulDl (mul_constant_rows _ (hP L h)) /add; congr (_ + _).
rewrite (mul_sumr (P L h) (fun p : path H L => path_term X p)).
rewrite (mul_suml (fun p : path H L => mul (P L h) (path_term X p))).
by apply: eq_bigr => p _; rewrite path_term_rcons.
Qed.
End Terms.

(** ** Claim paths.decomposition *)
Theorem decomposition (T K D V H : finType) (net : nat -> layer K D V H) (X : T -> K
  -> R) (L : nat) :
  let P := fun l h => attention (heads (net l) h) (states net X l) in
  let W := fun l h => mul (WV (heads (net l) h)) (WO (heads (net l) h)) in
  let b := fun k => \sum_(l < L)
    lin (\big[mul/ident]_(S l <= m < L) (fun i j => \sum_h W m h i j)) (layer_bias (net l)) k in
  states net X L
    = add (fun i k => \sum_(p : path H L)
             mul (mul (left_product P 0 p) X) (right_product W 0 p) i k)
          (constant_rows b).
Proof.
move=> P W b; have hP l h i : \sum_j P l h i j = 1 by exact: attention_sum1.
rewrite -[RHS](run_is_sum_over_paths W (fun l => layer_bias (net l)) hP X L).
by elim: L {b} => [|L IH] //=; rewrite self_attention_matrix -IH.
Qed.

(** ** Skip connections: the heads are [option H], and [None] has two identities *)
Section Skip.
Variables T K H : finType.

Lemma sum_option (F : option H -> R) : \big[Rplus/0]_(o : option H) F o = F None
  + \sum_h F (Some h).
Proof.
have hp : perm_eq (index_enum [finType of option H]) (None :: map Some (index_enum H)).
  apply: uniq_perm; first exact: index_enum_uniq.
    rewrite /= map_inj_uniq ?index_enum_uniq ?andbT; last by move=> x y [].
    by apply/negP => /mapP [].
  move=> [h|]; rewrite mem_index_enum; symmetry => //.
  by rewrite in_cons map_f ?orbT // mem_index_enum.
by rewrite (perm_big _ hp) big_cons big_map.
Qed.

Definition with_skip (I : finType) (A : nat -> H -> I -> I -> R) (l : nat) (o : option H) : I
  -> I -> R :=
  match o with None => ident | Some h => A l h end.
End Skip.

Theorem skip_decomposition (T K D V H : finType) (net : nat -> layer K D V H) (X : T -> K -> R)
    (L : nat) :
  let P := with_skip (fun l h => attention (heads (net l) h) (skip_states net X l)) in
  let W := with_skip (fun l h => mul (WV (heads (net l) h)) (WO (heads (net l) h))) in
  let b := fun k => \sum_(l < L)
    lin (\big[mul/ident]_(S l <= m < L) add ident (fun i j => \sum_h W m (Some h) i j))
        (layer_bias (net l)) k in
  skip_states net X L
    = add (fun i k => \sum_(p : path [finType of option H] L)
             mul (mul (left_product P 0 p) X) (right_product W 0 p) i k)
          (constant_rows b).
Proof.
move=> P W b.
have hP l (o : [finType of option H]) i : \sum_j P l o i j = 1.
  case: o => [h|]; first exact: attention_sum1.
  exact: (sum_delta i (fun _ => 1)).
have -> : b = path_bias (W : nat -> [finType of option H] -> K -> K -> R) (fun l
  => layer_bias (net l)) L.
  apply: functional_extensionality => k; apply: eq_bigr => l _; congr (lin _ _ k).
  by apply: eq_bigr => m _; apply: matrix_eq => i j; rewrite /head_sum sum_option.
rewrite -[RHS](run_is_sum_over_paths (W : nat -> [finType of option H] -> _)
                 (fun l => layer_bias (net l)) hP X L).
elim: L {b} => [|L IH] //=; rewrite -IH.
apply: matrix_eq => i k; rewrite /skip_layer /path_layer /add self_attention_split sum_option /=.
by rewrite mul1l mul1r /constant_rows Rplus_assoc.
Qed.

(** ** Near neighbors *)
Section Neighbors.
Notation unit := unit_finType.

Lemma sum_one (F : unit -> R) : \sum_i F i = F tt.
Proof. by rewrite (bigD1 tt) //= big_pred0 => [|[]] //; ring. Qed.

(** One head of one coordinate with value bias [bv], output matrix [o] and output bias [bo];
  the value
    matrix is 0. *)
Let blind (bv o bo : R) : layer unit unit unit unit :=
  Layer (fun _ => Head (fun _ _ => 0) (fun _ => 0) (fun _ _ => 0) (fun _ => 0)
                       (fun _ _ => 0) (fun _ => bv) (fun _ _ => o)) (fun _ => bo).

(** Row [b] without the products of the later layers: [b = \sum_l b_l]. *)
Theorem not_bias_without_products :
  ~ (forall (T K D V H : finType) (net : nat -> layer K D V H) (X : T -> K -> R) (L : nat),
       let P := fun l h => attention (heads (net l) h) (states net X l) in
       let W := fun l h => mul (WV (heads (net l) h)) (WO (heads (net l) h)) in
       states net X L
         = add (fun i k => \sum_(p : path H L)
                  mul (mul (left_product P 0 p) X) (right_product W 0 p) i k)
               (constant_rows (fun k => \sum_(l < L) layer_bias (net l) k))).
Proof.
pose net (l : nat) := blind 0 0 1; pose X : unit -> unit -> R := fun _ _ => 0.
move=> h; have := h _ _ _ _ _ net X 2%nat; have := decomposition net X 2%nat; cbv zeta => -> h2.
have {h2} := f_equal (fun A => A tt tt) h2; rewrite /add /constant_rows.
have hb l : layer_bias (net l) = fun _ => 1.
  by apply: functional_extensionality => k; rewrite /layer_bias sum_one /lin sum_one /=; ring.
set A := \big[Rplus/0]_(p : path unit 2) _.
rewrite !big_ord_recl !big_ord0 !hb /= big_nat1 big_geq // lin_ident.
by rewrite /lin !sum_one /mul !sum_one; lra.
Qed.

(** The value biases left out of [b_l]. *)
Theorem not_bias_without_values :
  ~ (forall (T K D V H : finType) (net : nat -> layer K D V H) (X : T -> K -> R) (L : nat),
       let P := fun l h => attention (heads (net l) h) (states net X l) in
       let W := fun l h => mul (WV (heads (net l) h)) (WO (heads (net l) h)) in
       states net X L
         = add (fun i k => \sum_(p : path H L)
                  mul (mul (left_product P 0 p) X) (right_product W 0 p) i k)
               (constant_rows (fun k => \sum_(l < L)
                  lin (\big[mul/ident]_(S l <= m < L) (fun i j => \sum_h W m h i j)) (bO (net l))
                    k))).
Proof.
pose net (l : nat) := blind 1 1 0; pose X : unit -> unit -> R := fun _ _ => 0.
move=> h; have := h _ _ _ _ _ net X 1%nat; have := decomposition net X 1%nat; cbv zeta => -> h2.
have {h2} := f_equal (fun A => A tt tt) h2; rewrite /add /constant_rows.
set A := \big[Rplus/0]_(p : path unit 1) _.
rewrite !big_ord_recl !big_ord0 !big_geq // !lin_ident /layer_bias !sum_one /lin sum_one /=.
by lra.
Qed.

(** With skip connections, the product without the identity. *)
Theorem not_skip_bias_without_identity :
  ~ (forall (T K D V H : finType) (net : nat -> layer K D V H) (X : T -> K -> R) (L : nat),
       let P := with_skip (fun l h => attention (heads (net l) h) (skip_states net X l)) in
       let W := with_skip (fun l h => mul (WV (heads (net l) h)) (WO (heads (net l) h))) in
       skip_states net X L
         = add (fun i k => \sum_(p : path [finType of option H] L)
                  mul (mul (left_product P 0 p) X) (right_product W 0 p) i k)
               (constant_rows (fun k => \sum_(l < L)
                  lin (\big[mul/ident]_(S l <= m < L) (fun i j => \sum_h W m (Some h) i j))
                      (layer_bias (net l)) k))).
Proof.
pose net (l : nat) := blind 0 0 1; pose X : unit -> unit -> R := fun _ _ => 0.
move=> h; have := h _ _ _ _ _ net X 2%nat; have := skip_decomposition net X 2%nat;
  cbv zeta => -> h2.
have {h2} := f_equal (fun A => A tt tt) h2; rewrite /add /constant_rows.
have hb l : layer_bias (net l) = fun _ => 1.
  by apply: functional_extensionality => k; rewrite /layer_bias sum_one /lin sum_one /=; ring.
set A := \big[Rplus/0]_(p : path [finType of option unit] 2) _.
rewrite !big_ord_recl !big_ord0 !hb /= !big_nat1 !big_geq // !lin_ident.
rewrite /lin !sum_one /add /ident eqxx /mul !sum_one /=.
by lra.
Qed.
End Neighbors.
