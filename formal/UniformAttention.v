(** * Uniform attention with random value maps

    Claim training.uniform-attention, in a finite probability space.  When every row of attention is
    uniform, a layer adds the same vector to all tokens, so their differences stay.  The expected
    Gram matrix after [L] layers is [G + (g - 1) |mean|^2 1 1^T] with [g = (1 + tau)^L].  From
    orthogonal tokens of one length the quotient of expected inner product and expected squared
    length is [(g - 1) / (g - 1 + n)]; it passes 1/2 at [L = ln (n + 1) / ln (1 + tau)].

    Idea.  Value maps that are independent of those below have the same moments given those below,
    so the recursion of GramRecursion.v holds layer after layer.  A layer adds [tau] times the mean
    of all entries of the expected Gram matrix to every entry.  So it multiplies this mean by
    [1 + tau]. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter Attention.
From AttnVerify Require Import Skip Covariance GramRecursion.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

(** ** Independence *)
Section Independence.
Variables (Omega : finType) (Known M : Type) (p : Omega -> R) (U : Omega -> Known) (V : Omega -> M).

(** The mean of a product of functions of [U] and of [V] is the product of their means. *)
Definition independent : Prop := forall (f : Known -> R) (g : M -> R),
  average p (fun w => f (U w) * g (V w))
  = average p (fun w => f (U w)) * average p (fun w => g (V w)).

Lemma independent_given g m : weights p -> independent ->
  mean_given p (@nothing Omega) (fun w => g (V w)) (fun _ => m) ->
  mean_given p U (fun w => g (V w)) (fun _ => m).
Proof.
move=> [_ h1] hi hm c; rewrite hi.
have -> : average p (fun w => g (V w)) = m.
  have := hm (fun _ => 1); rewrite /average => e.
  transitivity (\sum_w (p w * (1 * g (V w)))); first by apply: eq_bigr => w _; ring.
  by rewrite e sumZr h1; ring.
by rewrite /average -sumZr; apply: eq_bigr => w _; ring.
Qed.
End Independence.

(** What the first [l] layers draw. *)
Definition below (Omega M : Type) (W : Omega -> nat -> M) (l : nat) : Omega -> 'I_l -> M :=
  fun w k => W w k.
Arguments below {Omega M} W l w k.

(** The maps of each of the first [L] layers have uncorrelated entries of mean 0 and variance [v],
    and are independent of the maps of all layers below. *)
Definition fresh_maps (Omega H K : finType) (p : Omega -> R) (v : R)
  (W : Omega -> nat -> H -> K -> K -> R) (L : nat) : Prop :=
  forall l, (l < L)%nat ->
    random_maps p (@nothing Omega) v (fun w => W w l) /\ independent p (below W l) (fun w => W w l).

(** ** Uniform attention *)
Definition uniform (T : finType) : T -> T -> R := fun _ _ => / INR #|T|.

(** The tokens after the first [l] layers. *)
Fixpoint uniform_states (T K H : finType) (alpha : R) (W : nat -> H -> K -> K -> R)
  (X : T -> K -> R) (l : nat) : T -> K -> R :=
  match l with
  | O => X
  | S k => value_layer alpha (fun _ => @uniform T) (W k) (uniform_states alpha W X k)
  end.

Section Uniform.
Variables (Omega T K H : finType) (alpha : R) (X : T -> K -> R).

Lemma differences (W : nat -> H -> K -> K -> R) l i j :
  vsub (uniform_states alpha W X l i) (uniform_states alpha W X l j) = vsub (X i) (X j).
Proof.
elim: l => //= l <-; set Y := uniform_states alpha W X l.
apply: functional_extensionality => k; rewrite /vsub.
pose c := alpha * \sum_h mul (mul (@uniform T) Y) (W l h) i k.
by transitivity (Y i k + c - (Y j k + c)); [| ring].
Qed.

(** Maps of the first [l] layers, with zeros behind them. *)
Definition extended (l : nat) (b : 'I_l -> H -> K -> K -> R) (k : nat) : H -> K -> K -> R :=
  if (insub k : option 'I_l) is Some i then b i else fun _ => zero.

Lemma states_below (W : Omega -> nat -> H -> K -> K -> R) l w :
  uniform_states alpha (W w) X l = uniform_states alpha (extended (below W l w)) X l.
Proof.
have h k : (k <= l)%nat ->
  uniform_states alpha (W w) X k = uniform_states alpha (extended (below W l w)) X k.
  elim: k => //= k IH hk; rewrite IH ?(ltnW hk) //; congr value_layer.
  by rewrite /extended insubT.
exact: h.
Qed.

(** The mean of all entries of a matrix. *)
Definition entry_mean (G : T -> T -> R) : R := (\sum_i \sum_j G i j) / INR #|T| ^ 2.

Lemma uniform_mix G i j : mul (@uniform T) (mul G (tr (@uniform T))) i j = entry_mean G.
Proof.
have hT := card_neq0 i; rewrite /mul /tr /uniform /entry_mean.
transitivity (/ INR #|T| * ((\sum_k \sum_m G k m) * / INR #|T|)); last by field.
by rewrite sumZl -sumZr; congr (_ * _); apply: eq_bigr => k _; rewrite sumZr.
Qed.

Lemma entry_mean_gram : entry_mean (gram X) = norm (mean_row X) ^ 2.
Proof.
rewrite /= Rmult_1_r norm_sq /entry_mean /gram /dot /mul /tr /mean_row.
transitivity ((\sum_k ((\sum_i X i k) * (\sum_i X i k))) / INR #|T| ^ 2).
  have square k : (\sum_i X i k) * (\sum_i X i k) = \sum_i \sum_j (X i k * X j k).
    by rewrite -sumZr; apply: eq_bigr => i _; rewrite sumZl.
  under [in RHS]eq_bigr => k _ do rewrite square.
  rewrite [in RHS]sum_exchange; congr (_ / _); apply: eq_bigr => i _; exact: sum_exchange.
rewrite {1}/Rdiv -sumZr; apply: eq_bigr => k _.
case: (Req_dec (INR #|T|) 0) => [->|h]; last by field.
by rewrite /Rdiv /= Rmult_0_l Rinv_0; ring.
Qed.

(** ** The expected Gram matrix *)
Variables (p : Omega -> R) (W : Omega -> nat -> H -> K -> K -> R) (s : R) (L : nat).
Hypothesis heads : H.
Hypothesis outcomes : weights p.
Hypothesis fresh : fresh_maps p (s ^ 2 / (INR #|K| * INR #|H|)) W L.

Let expected l i j := average p (fun w => gram (uniform_states alpha (W w) X l) i j).

Lemma expected_0 i j : expected 0 i j = gram X i j.
Proof. by rewrite /expected /average /= sumZr (proj2 outcomes); ring. Qed.

Lemma expected_mean l :
  average p (fun w => entry_mean (gram (uniform_states alpha (W w) X l))) = entry_mean (expected l).
Proof.
rewrite /average /entry_mean /expected /average /Rdiv.
transitivity ((\sum_w \sum_i \sum_j (p w * gram (uniform_states alpha (W w) X l) i j))
  * / INR #|T| ^ 2).
  rewrite -sumZr; apply: eq_bigr => w _; rewrite -Rmult_assoc; congr (_ * _).
  by rewrite -sumZl; apply: eq_bigr => i _; rewrite sumZl.
congr (_ * _); rewrite sum_exchange; apply: eq_bigr => i _; exact: sum_exchange.
Qed.

Lemma expected_step l i j : (l < L)%nat ->
  expected l.+1 i j = expected l i j + alpha ^ 2 * s ^ 2 * entry_mean (expected l).
Proof.
move=> hl; have [[h1 h2] hi] := fresh hl.
have given : random_maps p (below W l) (s ^ 2 / (INR #|K| * INR #|H|)) (fun w => W w l).
  split=> [h k m|h k m h' k' m'].
    exact: (independent_given (g := fun M => M h k m) outcomes hi (h1 h k m)).
  exact: (independent_given (g := fun M => M h k m * M h' k' m') outcomes hi (h2 _ _ _ _ _ _)).
have := gram_recursion (fun b => uniform_states alpha (extended b) X l)
  (fun _ _ => @uniform T) alpha outcomes given i j (fun _ => 1).
rewrite /average => e; rewrite -expected_mean /expected /average.
transitivity (\sum_w (p w * (1 * gram (value_layer alpha (fun=> @uniform T) (W w l)
    (uniform_states alpha (extended (below W l w)) X l)) i j))).
  by apply: eq_bigr => w _; rewrite /= -states_below; ring.
rewrite e -sumZl -sumD; apply: eq_bigr => w _; rewrite -states_below.
under eq_bigr => h _ do rewrite uniform_mix.
by rewrite sum_const; field; exact: card_neq0 heads.
Qed.

Lemma expected_gram l i j : (l <= L)%nat ->
  expected l i j = gram X i j + ((1 + alpha ^ 2 * s ^ 2) ^ l - 1) * norm (mean_row X) ^ 2.
Proof.
move=> hl; elim: l hl i j => [|l IH] hl i j; first by rewrite expected_0 /=; ring.
have hT := card_neq0 i; rewrite expected_step // (IH (ltnW hl)) -entry_mean_gram.
have -> : entry_mean (expected l) = (1 + alpha ^ 2 * s ^ 2) ^ l * entry_mean (gram X).
  rewrite {1}/entry_mean; under eq_bigr => a _ do (under eq_bigr => b _ do rewrite (IH (ltnW hl));
    rewrite sumD sum_const).
  rewrite sumD sum_const -entry_mean_gram; set c := _ - 1.
  have -> : (1 + alpha ^ 2 * s ^ 2) ^ l = 1 + c by rewrite /c; ring.
  have -> : \sum_a \sum_b gram X a b = INR #|T| ^ 2 * entry_mean (gram X).
    by rewrite /entry_mean; field.
  by field.
by rewrite /=; ring.
Qed.
End Uniform.

(** ** The quotient from orthogonal tokens *)
Lemma orthogonal_mean (T K : finType) (X : T -> K -> R) r : T -> (forall i, norm (X i) = r) ->
  (forall i j, i <> j -> dot (X i) (X j) = 0) -> norm (mean_row X) ^ 2 = r ^ 2 / INR #|T|.
Proof.
move=> i0 hr ho; have hT := card_neq0 i0; rewrite -entry_mean_gram /entry_mean.
have -> : \sum_i \sum_j gram X i j = INR #|T| * r ^ 2; last by field.
rewrite -sum_const; apply: eq_bigr => i _; rewrite -[RHS](sum_delta i (fun _ => r ^ 2)).
apply: eq_bigr => j _; rewrite -[gram X i j]/(dot (X i) (X j)).
case: (j =P i) => [->|h]; last by apply: ho => e; apply: h.
by rewrite -norm_sq hr /=; ring.
Qed.

Lemma half n tau L : 0 < n -> 0 < tau -> let g := (1 + tau) ^ L in
  ((g - 1) / (g - 1 + n) < 1 / 2 <-> INR L < ln (n + 1) / ln (1 + tau)) /\
  (1 / 2 < (g - 1) / (g - 1 + n) <-> ln (n + 1) / ln (1 + tau) < INR L).
Proof.
move=> hn ht g; have hg : 1 <= g by apply: pow_R1_Rle; lra.
have hl : 0 < ln (1 + tau) by rewrite -ln_1; apply: ln_increasing; lra.
have e : INR L * ln (1 + tau) = ln g by rewrite -ln_pow //; lra.
have q : (g - 1) / (g - 1 + n) = 1 / 2 + (g - (n + 1)) / (2 * (g - 1 + n)) by field; lra.
have le x y : 0 < x -> 0 < y -> (ln x < ln y <-> x < y).
  by move=> hx hy; split; [exact: ln_lt_inv | exact: ln_increasing].
have pos : 0 < / (2 * (g - 1 + n)) by apply: Rinv_0_lt_compat; lra.
have back x : x / ln (1 + tau) * ln (1 + tau) = x by field; lra.
have h1 := le g (n + 1) ltac:(lra) ltac:(lra); have h2 := le (n + 1) g ltac:(lra) ltac:(lra).
rewrite q /(_ / (2 * _)); split; split=> h.
- apply: (Rmult_lt_reg_r (ln (1 + tau))) => //; rewrite back e; apply/h1; nra.
- have : g < n + 1; [apply/h1; rewrite -e -(back (ln (n + 1))); exact: Rmult_lt_compat_r | nra].
- apply: (Rmult_lt_reg_r (ln (1 + tau))) => //; rewrite back e; apply/h2; nra.
- have : n + 1 < g; [apply/h2; rewrite -e -(back (ln (n + 1))); exact: Rmult_lt_compat_r | nra].
Qed.

(** ** Claim training.uniform-attention *)
Theorem uniform_attention (Omega T K H : finType) (p : Omega -> R)
  (W : Omega -> nat -> H -> K -> K -> R) (X : T -> K -> R) (alpha s : R) (L : nat) :
  let Y := fun w => uniform_states alpha (W w) X L in
  let tau := alpha ^ 2 * s ^ 2 in
  let g := (1 + tau) ^ L in
  (forall w i j, vsub (Y w i) (Y w j) = vsub (X i) (X j)) /\
  (H -> weights p -> fresh_maps p (s ^ 2 / (INR #|K| * INR #|H|)) W L ->
    (forall i j,
       average p (fun w => gram (Y w) i j) = gram X i j + (g - 1) * norm (mean_row X) ^ 2) /\
    (forall r, 0 < r -> (forall i, norm (X i) = r) ->
      (forall i j, i <> j -> dot (X i) (X j) = 0) -> forall i j, i <> j ->
      let q := average p (fun w => dot (Y w i) (Y w j)) / average p (fun w => norm (Y w i) ^ 2) in
      q = (g - 1) / (g - 1 + INR #|T|) /\
      (0 < tau ->
        (q < 1 / 2 <-> INR L < ln (INR #|T| + 1) / ln (1 + tau)) /\
        (1 / 2 < q <-> ln (INR #|T| + 1) / ln (1 + tau) < INR L)))).
Proof.
move=> Y tau g; split; first by move=> w i j; exact: differences.
move=> h0 hp hW; have hE i j : average p (fun w => gram (Y w) i j)
    = gram X i j + (g - 1) * norm (mean_row X) ^ 2.
  exact: (expected_gram alpha X h0 hp hW i j (leqnn L)).
split=> //.
move=> r hr0 hr ho i j hij q; have hT := card_neq0 i.
have ht : 0 <= tau by apply: Rmult_le_pos; exact: pow2_ge_0.
have hn : 0 < INR #|T| by have := pos_INR #|T|; lra.
have hg : 1 <= g by apply: pow_R1_Rle; lra.
have hq : q = (g - 1) / (g - 1 + INR #|T|).
  have e1 : average p (fun w => dot (Y w i) (Y w j)) = (g - 1) * (r ^ 2 / INR #|T|).
    rewrite -(orthogonal_mean i hr ho); have := hE i j.
    by rewrite -[gram X i j]/(dot (X i) (X j)) ho // => ->; ring.
  have e2 : average p (fun w => norm (Y w i) ^ 2) = r ^ 2 + (g - 1) * (r ^ 2 / INR #|T|).
    rewrite -(orthogonal_mean i hr ho); have := hE i i.
    rewrite -[gram X i i]/(dot (X i) (X i)) -norm_sq hr => e.
    transitivity (r * r + (g - 1) * norm (mean_row X) ^ 2); last by ring.
    by rewrite -e; apply: eq_bigr => w _; rewrite /= Rmult_1_r norm_sq.
  have e3 : r ^ 2 + (g - 1) * (r ^ 2 / INR #|T|) = r ^ 2 / INR #|T| * (g - 1 + INR #|T|) by field.
  by rewrite /q e1 e2 e3; field; repeat split; lra.
by split=> // ht0; rewrite hq; exact: half.
Qed.

(** ** Near neighbors *)
Lemma independent_of_nothing (Omega H K : finType) (M : Type) (p : Omega -> R)
  (W : Omega -> nat -> H -> K -> K -> R) (Z : Omega -> M) :
  weights p -> independent p (below W 0) Z.
Proof.
move=> [_ h1] f g.
have e w : below W 0 w = fun _ _ => zero by apply: functional_extensionality => -[].
rewrite /average; set z := f (fun _ _ => zero).
transitivity (z * \sum_w (p w * g (Z w))).
  by rewrite -sumZl; apply: eq_bigr => w _; rewrite e -/z; ring.
by congr (_ * _); rewrite -[LHS]Rmult_1_l -h1 -sumZr; apply: eq_bigr => w _; rewrite e.
Qed.

(** One coin for both of two layers: no layer is independent of the one below. *)
Theorem not_without_independence :
  ~ (forall (Omega T K H : finType) (p : Omega -> R) (W : Omega -> nat -> H -> K -> K -> R)
       (X : T -> K -> R) (alpha s : R) (L : nat), H -> weights p ->
     (forall l, (l < L)%nat ->
       random_maps p (@nothing Omega) (s ^ 2 / (INR #|K| * INR #|H|)) (fun w => W w l)) ->
     forall i j, average p (fun w => gram (uniform_states alpha (W w) X L) i j)
       = gram X i j + ((1 + alpha ^ 2 * s ^ 2) ^ L - 1) * norm (mean_row X) ^ 2).
Proof.
move=> h; pose W (w : bool) (_ : nat) (_ _ _ : unit) := sign w.
have hW l : (l < 2)%nat -> random_maps (two_weights (1 / 2)) (@nothing bool)
    (1 ^ 2 / (INR #|unit_finType| * INR #|unit_finType|)) (fun w => W w l).
  move=> _; rewrite card_unit1; split=> [[] [] [] c|[] [] [] [] [] [] c];
    by rewrite /average !big_bool /two_weights /W /sign /nothing ?eqxx /=; field.
have := h _ _ _ _ _ W (fun _ _ => 1) 1 1 2%nat tt fair hW tt tt.
rewrite -entry_mean_gram /entry_mean /average /uniform_states /gram /value_layer /mul /tr /uniform.
by rewrite !big_bool !sum_unit card_unit1 /two_weights /W /sign /=; lra.
Qed.

(** Growth by [tau] a layer in place of a factor of [1 + tau]: two coins, one for each layer. *)
Theorem not_linear_growth :
  ~ (forall (Omega T K H : finType) (p : Omega -> R) (W : Omega -> nat -> H -> K -> K -> R)
       (X : T -> K -> R) (alpha s : R) (L : nat), H -> weights p ->
     fresh_maps p (s ^ 2 / (INR #|K| * INR #|H|)) W L ->
     forall i j, average p (fun w => gram (uniform_states alpha (W w) X L) i j)
       = gram X i j + (1 + INR L * (alpha ^ 2 * s ^ 2) - 1) * norm (mean_row X) ^ 2).
Proof.
move=> h; pose Omega := prod_finType bool_finType bool_finType; pose p := @evenly Omega.
pose W (w : Omega) (l : nat) (_ _ _ : unit) := sign (if l is 0%nat then w.1 else w.2).
have hp : weights p by exact: evenly_weights (true, true).
have sum4 (F : Omega -> R) :
  \sum_w F w = F (true, true) + F (true, false) + (F (false, true) + F (false, false)).
  transitivity (\sum_a \sum_b F (a, b)); last by rewrite !big_bool.
  by rewrite pair_bigA; apply: eq_bigr => -[a b] _.
have p4 w : p w = / 4 by rewrite /p /evenly card_prod card_bool /=; congr (/ _); ring.
have hW : fresh_maps p (1 ^ 2 / (INR #|unit_finType| * INR #|unit_finType|)) W 2.
  move=> l hl; split.
    rewrite card_unit1; split=> [[] [] [] c|[] [] [] [] [] [] c];
      rewrite /average !sum4 !p4 /W /sign /nothing ?eqxx /=; case: l hl => [|l] _ /=; by field.
  case: l hl => [|[|l]] // _; first exact: independent_of_nothing.
  move=> f g; have e a b : below W 1 (a, b) = below W 1 (a, true).
    by apply: functional_extensionality => -[[|k] hk].
  have e' a b : W (a, b) 1%nat = W (true, b) 1%nat by [].
  rewrite /average !sum4 !p4 !(e _ false) !(e' false).
  move: (f (below W 1 (true, true))) (f (below W 1 (false, true))) => f1 f2.
  by move: (g (W (true, true) 1%nat)) (g (W (true, false) 1%nat)) => g1 g2; field.
have := h _ _ _ _ _ W (fun _ _ => 1) 1 1 2%nat tt hp hW tt tt.
rewrite -entry_mean_gram /entry_mean /average /uniform_states /gram /value_layer /mul /tr /uniform.
by rewrite !sum4 !p4 !sum_unit card_unit1 /W /sign /=; lra.
Qed.

(** [n - 1] in place of [n] in the quotient: two orthogonal tokens of length 1. *)
Theorem not_one_token_less :
  ~ (forall (Omega T K H : finType) (p : Omega -> R) (W : Omega -> nat -> H -> K -> K -> R)
       (X : T -> K -> R) (alpha s : R) (L : nat), H -> weights p ->
     fresh_maps p (s ^ 2 / (INR #|K| * INR #|H|)) W L ->
     let Y := fun w => uniform_states alpha (W w) X L in let g := (1 + alpha ^ 2 * s ^ 2) ^ L in
     forall r, 0 < r -> (forall i, norm (X i) = r) ->
     (forall i j, i <> j -> dot (X i) (X j) = 0) -> forall i j, i <> j ->
     average p (fun w => dot (Y w i) (Y w j)) / average p (fun w => norm (Y w i) ^ 2)
     = (g - 1) / (g - 1 + (INR #|T| - 1))).
Proof.
move=> h; pose v := 1 ^ 2 / (INR #|bool_finType| * INR #|unit_finType|).
pose W w (_ : nat) := @one_entry unit_finType bool_finType v w.
have hv : 0 <= v by rewrite /v card_bool2 card_unit1; lra.
have hp := evenly_weights (true, (tt, true, true)).
have hW : fresh_maps (@evenly _) v W 1.
  case=> // _; split; [exact: one_entry_random | exact: independent_of_nothing].
have h1 i : norm (ident i : bool -> R) = 1.
  by rewrite /norm /dot /ident big_bool -[RHS]sqrt_1; congr sqrt; case: i => /=; ring.
have h2 (i j : bool) : i <> j -> dot (ident i) (ident j : bool -> R) = 0.
  by rewrite /dot /ident big_bool; case: i; case: j => //= _; ring.
have hb : true <> false by [].
have := h _ _ _ _ _ W ident 1 1 1%nat tt hp hW 1 Rlt_0_1 h1 h2 _ _ hb.
have [_ t] := uniform_attention (@evenly _) W ident 1 1 1.
have [_ t2] := t tt hp hW; have [-> _] := t2 1 Rlt_0_1 h1 h2 _ _ hb.
by rewrite card_bool2 /=; lra.
Qed.
