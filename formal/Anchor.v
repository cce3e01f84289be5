(** * The layer that needs the condition

    Claim collapse.single-head-without-gamma, whole. Its last part: without the condition on the
    oscillations the bound is false. Take [2 k + 1] one-hot tokens, [X = I]: an anchor, [k] tokens
    that pull and [k] that do nothing, with [k = 100 000]. The query bias gives the anchor the
    score [ln (2 k)], [WQK / sqrt d_qk] is [M = ln (16 k)] times the projection on the pulling
    tokens, and the output reads the anchor alone. The weight of the anchor is 1/2 in [k + 1] rows
    and [alpha = 2 k / (20 k - 1)] in the [k] pulling rows; so every center leaves a column and a
    row of composite value at least [(1/2 - alpha) sqrt ((k + 1/2)/2)], more than 1.565 times [4
    M].

    The [k] tokens of each kind are the 5-tuples of ten digits; nothing is computed token by
    token. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter Attention.
From AttnVerify Require Import SharpLayer SharpDepth Paths Composite Critical CompositeCollapse
  ManyHeads.
From AttnVerify Require Import SingleHead ExpBounds.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

(** ** Numbers: the best center of [k + 1] entries [1/2] and [k] entries [alpha] *)
Lemma best_center (k g u w : R) : 1 <= k -> 0 <= g -> 0 <= u -> 0 <= w -> g <= u + w ->
  (2 * k + 1) * (g * g) / 4 <= (u + k * u + k * w) * Rmax u w.
Proof.
move=> hk hg hu hw h; have hc : 0 <= u + k * u + k * w by nra.
case: (Rle_dec w u) => hwu.
- rewrite Rmax_left //; have h1 : g / 2 <= u by lra.
  have h2 : g / 2 + k * g <= u + k * u + k * w by nra.
  have h3 : 0 <= g / 2 by lra.
  have h4 : 0 <= g / 2 + k * g by nra.
  by have := Rmult_le_compat _ _ _ _ h4 h3 h2 h1; lra.
- rewrite Rmax_right; last by lra.
  have h1 : g / 2 <= w by lra.
  case: (Rle_dec g w) => hgw.
    have h2 : k * g <= u + k * u + k * w by nra.
    have h3 : k * g * g <= (u + k * u + k * w) * w by apply: Rmult_le_compat => //; nra.
    by nra.
  have h2 : k * g + (g - w) <= u + k * u + k * w by nra.
  have h3 : (k * g + (g - w)) * w <= (u + k * u + k * w) * w by apply: Rmult_le_compat_r.
  have h4 : (2 * k + 1) * (g * g) / 4 <= (k * g + (g - w)) * w.
    have -> : (k * g + (g - w)) * w = (2 * k + 1) * (g * g) / 4
      + ((w - g / 2) * (k * g - (w - g / 2))) by field.
    have : 0 <= (w - g / 2) * (k * g - (w - g / 2)) by apply: Rmult_le_pos; nra.
    by lra.
  by lra.
Qed.

Section AnchorLayer.
Variable P : finType.
Variable p0 : P.
Let k : R := INR #|P|.

(** The tokens, which are the features too: [None] is the anchor, [Some (true, p)] pulls. *)
Definition anchor_token : finType := [finType of option (bool * P)].
Notation T := anchor_token.
Let anchor : T := None.
Definition pulls (i : T) : bool := if i is Some (b, _) then b else false.

Lemma sum_anchor (F : T -> R) :
  \sum_i F i = F None + (\sum_p F (Some (true, p)) + \sum_p F (Some (false, p))).
Proof.
rewrite (sum_option F); congr (_ + _).
transitivity (\sum_(q : bool * P) F (Some (q.1, q.2))); first by apply: eq_bigr => -[b p].
by rewrite -(pair_bigA _ (fun b p => F (Some (b, p)))) big_bool.
Qed.

Let M : R := ln (16 * k).
Let root := root_key_width T.

Definition anchor_head : head T T unit_finType :=
  Head (fun i j => if j == i then (if pulls i then root * M else 0) else 0)
       (fun j => if j == anchor then root * ln (2 * k) else 0)
       ident (fun _ => 0)
       (outer (basis anchor) (basis tt)) (fun _ => 0)
       (outer (basis tt) (basis anchor)).
Definition anchor_layer : layer T T unit_finType unit_finType
  := Layer (fun _ => anchor_head) (fun _ => 0).
Let X : T -> T -> R := ident.

Lemma k_ge1 : 1 <= k.
Proof. by rewrite -[1]/(INR 1); apply: le_INR; apply/leP; apply/card_gt0P; exists p0. Qed.

Lemma M_ge0 : 0 <= M.
Proof.
have hk := k_ge1; rewrite -ln_1 /M; case: (Rle_lt_or_eq_dec 1 (16 * k)); first by lra.
- by move=> h; apply: Rlt_le; apply: ln_increasing; lra.
- by lra.
Qed.

Lemma root_anchor : 0 < root. Proof. exact: root_gt0 anchor. Qed.

Lemma anchor_WQK : WQK anchor_head = WQ anchor_head.
Proof.
rewrite /WQK /=; have -> : tr ident = (ident : T -> T -> R).
  by apply: matrix_eq => i j; rewrite /tr /ident eq_sym.
exact: mul1r.
Qed.

Lemma anchor_WVO : WVO anchor_head = outer (basis anchor) (basis anchor).
Proof.
rewrite /WVO /= mul_outer -norm_sq norm_basis.
by apply: matrix_eq => i j; rewrite /scale; ring.
Qed.

(** ** Attention *)
Definition anchor_logit (i j : T) : R :=
  (if j == i then (if pulls i then M else 0) else 0) + (if j == anchor then ln (2 * k) else 0).

Lemma anchor_attention i : attention anchor_head X i = softmax (anchor_logit i).
Proof.
have hr := root_anchor; rewrite qk_reduction; congr softmax; apply: functional_extensionality => j.
have -> : tr X = ident by apply: matrix_eq => a b; rewrite /tr /X /ident eq_sym.
rewrite mul1r /affine /X mul1l anchor_WQK /=.
rewrite lin_ident /anchor_logit -/root.
by case: (j == i); case: (pulls i); case: (j == anchor); field; lra.
Qed.

Lemma anchor_exps i : exp (anchor_logit i anchor) = 2 * k /\
  \sum_j exp (anchor_logit i j) = 4 * k + (if pulls i then 16 * k - 1 else 0).
Proof.
have hk := k_ge1.
have hanchor : exp (anchor_logit i anchor) = 2 * k.
  rewrite /anchor_logit eqxx.
  have -> : (if anchor == i then if pulls i then M else 0 else 0) = 0.
    by case: eqP => // <-.
  by rewrite Rplus_0_l exp_ln; lra.
split=> //; rewrite sum_anchor hanchor.
have other b p : exp (anchor_logit i (Some (b, p)))
  = 1 + (if Some (b, p) == i then (if pulls i then 16 * k - 1 else 0) else 0).
  rewrite /anchor_logit Rplus_0_r; case: eqP => _; last by rewrite exp_0; ring.
  case: (pulls i); last by rewrite exp_0; ring.
  by rewrite /M exp_ln; lra.
under eq_bigr => p _ do rewrite other.
under [X in _ + (_ + X)]eq_bigr => p _ do rewrite other.
rewrite !sumD !sum_const -/k.
have hs : \sum_p (if Some (true, p) == i then (if pulls i then 16 * k - 1 else 0) else 0)
  = if pulls i then 16 * k - 1 else 0.
  case: i {hanchor other} => [[[] q]|] /=; last by rewrite sum0.
  - rewrite -[RHS](sum_delta q (fun _ => 16 * k - 1)); apply: eq_bigr => p _.
    by have -> : (Some (true, p) == Some (true, q)) = (p == q) by [].
  - apply: sum_eq0 => p _; by [].
have hs' : \sum_p (if Some (false, p) == i then (if pulls i then 16 * k - 1 else 0) else 0) = 0.
  by apply: sum_eq0 => p _; case: eqP => // <-.
by rewrite hs hs'; ring.
Qed.

(** The weight of the anchor. *)
Definition alpha : R := 2 * k / (20 * k - 1).

Lemma anchor_weight i : attention anchor_head X i anchor = if pulls i then alpha else / 2.
Proof.
have hk := k_ge1; rewrite anchor_attention /softmax; have [-> ->] := anchor_exps i.
by rewrite /alpha; case: (pulls i); field; lra.
Qed.

(** ** Output *)
Lemma anchor_output i j :
  self_attention anchor_layer X i j = (if pulls i then alpha else / 2) * basis anchor j.
Proof.
rewrite self_attention_split sum_unit -anchor_weight /X mul1r.
have -> : layer_bias anchor_layer j = 0.
  by rewrite /layer_bias sum_unit /lin sum_eq0 => [|v _]; [rewrite /=; ring | rewrite /=; ring].
rewrite -[mul _ _ i j]/(lin (WVO anchor_head) (attention anchor_head ident i) j) anchor_WVO
  lin_outer.
have -> : dot (attention anchor_head ident i) (basis anchor) = attention anchor_head ident i anchor.
  rewrite /dot -[RHS](sum_delta anchor (attention anchor_head ident i)).
  by apply: eq_bigr => m _; rewrite /basis; case: (m == anchor); ring.
by rewrite /vscale; ring.
Qed.

Lemma anchor_left y : (2 * k + 1) * ((/ 2 - alpha) * (/ 2 - alpha)) / 4
  <= composite (sub (self_attention anchor_layer X) (constant_rows y)) ^ 2.
Proof.
have hk := k_ge1; rewrite /= Rmult_1_r composite_sq.
set Y := sub _ _; pose t := y anchor; pose u := Rabs (/ 2 - t); pose w := Rabs (alpha - t).
have hY i : Y i anchor = (if pulls i then alpha else / 2) - t.
  by rewrite /Y /sub /constant_rows anchor_output /basis eqxx Rmult_1_r.
have hcol : u + k * u + k * w <= max_column_sum Y.
  apply: Rle_trans (column_sum_le Y anchor); rewrite sum_anchor !hY /=.
  under eq_bigr => p _ do rewrite hY /=.
  under [X in _ <= _ + (_ + X)]eq_bigr => p _ do rewrite hY /=.
  by rewrite !sum_const -/k -/u -/w; lra.
have entry i : Rabs (Y i anchor) <= max_row_sum Y.
  apply: Rle_trans (row_sum_le Y i).
  by apply: (sum_ge_term (F := fun j => Rabs (Y i j))) => j; exact: Rabs_pos.
have hrow : Rmax u w <= max_row_sum Y.
  apply: Rmax_lub; first by have := entry anchor; rewrite hY.
  by have := entry (Some (true, p0)); rewrite hY.
have hg : 0 <= / 2 - alpha.
  suff : alpha <= / 2 by lra.
  rewrite /alpha; apply: (Rmult_le_reg_r (20 * k - 1)); first by lra.
  by rewrite /Rdiv Rmult_assoc Rinv_l; lra.
have hguw : / 2 - alpha <= u + w.
  have := Rabs_triang (/ 2 - t) (- (alpha - t)); rewrite Rabs_Ropp -/u -/w.
  by have := Rle_abs (/ 2 - t + - (alpha - t)); lra.
have hu : 0 <= u := Rabs_pos _; have hw : 0 <= w := Rabs_pos _.
apply: Rle_trans (best_center hk hg hu hw hguw) _; apply: Rmult_le_compat => //.
- by nra.
- by apply: Rle_trans hu _; exact: Rmax_l.
Qed.

(** ** The right side *)
Lemma anchor_beta : single_beta anchor_layer <= root * M.
Proof.
have hr := root_anchor; have hM := M_ge0; have hrM : 0 <= root * M by apply: Rmult_le_pos; lra.
rewrite /single_beta /= anchor_WVO anchor_WQK /=.
have h1 : max_column_sum (fun i j : T => if j == i then (if pulls i then root * M else 0) else 0)
  <= root * M.
  apply: max_lub => // j.
  have -> : \sum_i Rabs (if j == i then (if pulls i then root * M else 0) else 0)
    = if pulls j then root * M else 0.
    rewrite -[RHS](sum_delta j (fun i => if pulls i then root * M else 0)); apply: eq_bigr => i _.
    rewrite eq_sym; case: (i == j); last exact: Rabs_R0.
    by case: (pulls i); [exact: Rabs_pos_eq | exact: Rabs_R0].
  by case: (pulls j); lra.
have h2 : composite (outer (basis anchor) (basis anchor)) <= 1.
  apply: square_le; first by lra.
  have c1 := @max_column_sum_outer _ anchor (basis anchor) 1 Rle_0_1.
  have c2 := @max_row_sum_outer _ anchor (basis anchor) 1 Rle_0_1.
  have a m : Rabs (basis anchor m) <= 1 by rewrite /basis; case: ifP; rewrite ?Rabs_R1 ?Rabs_R0;
    lra.
  have s : \sum_m Rabs (basis anchor m) <= 1.
    right; rewrite -[RHS](sum_delta anchor (fun _ => 1)); apply: eq_bigr => m _.
    by rewrite /basis; case: ifP; rewrite ?Rabs_R1 ?Rabs_R0.
  rewrite composite_sq;
    have := Rmult_le_compat _ _ _ _ (max_column_sum_ge0 _) (max_row_sum_ge0 _) (c1 a) (c2 s).
  by lra.
apply: (@Rle_trans _ (root * M * 1)); last by lra.
by apply: Rmult_le_compat;
  [exact: max_column_sum_ge0 | exact: composite_ge0 | exact: h1 | exact: h2].
Qed.

Lemma ident_composite : composite (sub X (constant_rows (fun _ => 0))) <= 1.
Proof.
have -> : sub X (constant_rows (fun _ => 0)) = X.
  by apply: matrix_eq => i j; rewrite /sub /constant_rows; ring.
apply: square_le; first by lra.
rewrite composite_sq.
have row i : \sum_j Rabs (X i j) = 1.
  rewrite -[RHS](sum_delta i (fun _ => 1)); apply: eq_bigr => j _.
  by rewrite /X /ident; case: ifP; rewrite ?Rabs_R1 ?Rabs_R0.
have col j : \sum_i Rabs (X i j) = 1.
  rewrite -[RHS](sum_delta j (fun _ => 1)); apply: eq_bigr => i _.
  by rewrite /X /ident eq_sym; case: ifP; rewrite ?Rabs_R1 ?Rabs_R0.
have h1 : max_column_sum X <= 1 by apply: max_lub => [|j]; rewrite ?col; lra.
have h2 : max_row_sum X <= 1 by apply: max_lub => [|i]; rewrite ?row; lra.
have := Rmult_le_compat _ _ _ _ (max_column_sum_ge0 _) (max_row_sum_ge0 _) h1 h2; lra.
Qed.

Theorem anchor_violates y : k = 100000 ->
  composite (sub (self_attention anchor_layer X) (constant_rows y))
    > 1565 / 1000 * (4 * single_beta anchor_layer / root_key_width T
                     * composite (sub X (constant_rows (fun _ => 0))) ^ 3).
Proof.
move=> hk; have hl := anchor_left y; have hb := anchor_beta; have hi := ident_composite.
have hr := root_anchor; have hM := M_ge0; have hb0 := single_beta_ge0 anchor_layer.
set c := composite (sub (self_attention _ _) _) in hl *.
have hc : 0 <= c := composite_ge0 _; set x := composite (sub X _) in hi *.
have hx : 0 <= x := composite_ge0 _.
have hM2 : M <= 142868 / 10000.
  by have := ln_1600000; rewrite /M hk (_ : 16 * 100000 = 1600000) //; ring.
have hx3 : x ^ 3 <= 1 by rewrite -(pow1 3); apply: pow_incr.
have hx30 : 0 <= x ^ 3 := pow_le _ 3 hx.
have h1 : 4 * single_beta anchor_layer / root_key_width T <= 4 * M.
  apply: (Rmult_le_reg_r root) => //.
  have -> : 4 * single_beta anchor_layer / root_key_width T * root = 4 * single_beta anchor_layer.
    by rewrite -/root; field; lra.
  by lra.
have h0 : 0 <= 4 * single_beta anchor_layer / root_key_width T.
  by apply: Rmult_le_pos; [lra | apply: Rlt_le; exact: Rinv_0_lt_compat].
have h2 := Rmult_le_compat _ _ _ _ h0 hx30 h1 hx3.
have ha : 39999 / 100000 <= / 2 - alpha.
  rewrite /alpha hk; apply: (Rmult_le_reg_r (20 * 100000 - 1)); first by lra.
  have -> : (/ 2 - 2 * 100000 / (20 * 100000 - 1)) * (20 * 100000 - 1)
    = / 2 * (20 * 100000 - 1) - 2 * 100000 by field; lra.
  by lra.
have ha2 : (39999 / 100000) * (39999 / 100000) <= (/ 2 - alpha) * (/ 2 - alpha).
  by apply: Rmult_le_compat; lra.
apply: Rlt_gt; apply: Rnot_le_lt => hle.
have h3 : c <= 1565 / 1000 * (4 * (142868 / 10000)) by lra.
have h4 := Rmult_le_compat _ _ _ _ hc hc h3 h3.
by rewrite /= Rmult_1_r hk in hl; lra.
Qed.
End AnchorLayer.

(** [10^5] tokens of each kind: five digits. *)
Definition five_digits : finType := [finType of 5.-tuple 'I_10].

Lemma five_digits_card : INR #|five_digits| = 100000.
Proof.
rewrite card_tuple card_ord.
have power n : INR (expn 10 n) = 10 ^ n.
  elim: n => [|n IH] //; rewrite expnS mult_INR IH /=; congr (_ * _); ring.
by rewrite power /=; ring.
Qed.

Lemma anchor_token_card : INR #|anchor_token five_digits| = 200001.
Proof.
rewrite card_option card_prod card_bool S_INR mult_INR five_digits_card /=; ring.
Qed.

(** ** Claim collapse.single-head-without-gamma *)
Theorem single_head_without_gamma :
  (forall (T K D V : finType) (L : layer K D V unit_finType) (X : T -> K -> R) (x : K -> R),
     (forall i, osc (residual_scores (heads L tt) (sub X (constant_rows x)) i) <= critical) ->
     exists y, composite (sub (self_attention L X) (constant_rows y))
       <= 4 * single_beta L / root_key_width D * composite (sub X (constant_rows x)) ^ 3) /\
  (forall (T K D V : finType) (net : nat -> layer K D V unit_finType) (X : T -> K -> R)
     (x : nat -> K -> R) (beta : R) (n : nat),
     (forall l, Nat.le l n -> minimizing_center (states net X l) (x l)) ->
     (forall l, Nat.lt l n -> single_beta (net l) <= beta) -> 0 <= beta ->
     (forall l i, Nat.lt l n -> osc (residual_scores (heads (net l) tt)
        (sub (states net X l) (constant_rows (x l))) i) <= critical) ->
     composite (sub (states net X n) (constant_rows (x n)))
       <= (4 * beta / root_key_width D) ^ (Nat.div (Nat.sub (Nat.pow 3 n) 1) 2)
          * composite (sub X (constant_rows (x 0%nat))) ^ Nat.pow 3 n) /\
  (exists (T K D V : finType) (L : layer K D V unit_finType) (X : T -> K -> R) (x : K -> R),
     INR #|T| = 200001 /\
     forall y, composite (sub (self_attention L X) (constant_rows y))
       > 1565 / 1000 * (4 * single_beta L / root_key_width D
         * composite (sub X (constant_rows x)) ^ 3)).
Proof.
split; last split.
- by move=> T K D V L X x; exact: single_layer.
- by move=> T K D V net X x beta n; exact: single_head_depth.
- pose p0 : five_digits := [tuple of nseq 5 ord0].
  exists (anchor_token five_digits), (anchor_token five_digits), (anchor_token five_digits),
    unit_finType.
  exists (anchor_layer five_digits), ident, (fun _ => 0); split; first exact: anchor_token_card.
  by move=> y; apply: (anchor_violates p0); exact: five_digits_card.
Qed.

(** Near neighbor: the layer theorem without the condition. *)
Theorem not_without_condition :
  ~ (forall (T K D V : finType) (L : layer K D V unit_finType) (X : T -> K -> R) (x : K -> R),
     exists y, composite (sub (self_attention L X) (constant_rows y))
       <= 4 * single_beta L / root_key_width D * composite (sub X (constant_rows x)) ^ 3).
Proof.
move=> h; have [_ [_ [T [K [D [V [L [X [x [_ hv]]]]]]]]]] := single_head_without_gamma.
have [y hy] := h T K D V L X x; have := hv y.
have h0 : 0 <= 4 * single_beta L / root_key_width D * composite (sub X (constant_rows x)) ^ 3.
  apply: Rmult_le_pos; last by apply: pow_le; exact: composite_ge0.
  by apply: Rmult_le_pos; [have := single_beta_ge0 L; lra | exact: inv_root_ge0].
by lra.
Qed.
