(** * The sharp theorem for one layer

    Claim collapse.sharp-layer. For every layer, all biases included, and all tokens [X]

      [diam (SA X) <= diam X * \sum_h |W_h| tanh (|WQK_h| (diam X)^2 / (4 sqrt d_qk))
                   <= (\sum_h |WQK_h| |W_h|) / (4 sqrt d_qk) * (diam X)^3],

    where [| |] is the operator norm and [W_h = WV_h WO_h]. Two tokens [+- (delta/2) e] attain the
    first bound if [WQK_h = q_h e e^T], [W_h = v_h e w^T] for unit vectors [e], [w], and there is
    no query bias. No number below 1/4 can stand in its place.

    The proof follows the book: the difference of two output rows is free of biases (Attention.v);
    a difference of two rows of attention moves a barycenter by at most their total variation
    times the diameter (Diameter.v); the oscillation of the difference of the logits of two
    queries is at most [|WQK| (diam X)^2 / sqrt d_qk] ([logit_oscillation]); softmax turns this
    into total variation (TotalVariation.v). *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter Attention.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Section SharpLayer.
Variables T K D V H : finType.
Implicit Types (X : T -> K -> R) (h : head K D V) (L : layer K D V H).

(** [c_h = |WQK_h| / (4 sqrt d_qk)], the rate of a head. *)
Definition rate h : R := opnorm (WQK h) / (4 * root_key_width D).

Lemma rate_ge0 h : 0 <= rate h.
Proof.
rewrite /rate /Rdiv Rinv_mult; apply: Rmult_le_pos; first exact: opnorm_ge0.
by apply: Rmult_le_pos; [lra | exact: inv_root_ge0].
Qed.

(** ** One head *)
Lemma logit_oscillation h X i k :
  osc (fun j => logits h X k j - logits h X i j) <= 4 * (rate h * diam X ^ 2).
Proof.
have hd := diam_ge0 X; have hr := rate_ge0 h.
apply: osc_lub => [|j l]; first by nra.
rewrite logit_differences.
have -> : 4 * (rate h * diam X ^ 2) = opnorm (WQK h) * diam X * diam X / root_key_width D.
  by rewrite /rate /Rdiv Rinv_mult; move: (/ root_key_width D) => r; field.
apply: Rmult_le_compat_r; first exact: inv_root_ge0.
apply: Rle_trans (bilinear_bound _ _ _) _.
have hn := opnorm_ge0 (WQK h); rewrite !Rmult_assoc; apply: Rmult_le_compat_l => //.
by apply: Rmult_le_compat; try exact: norm_ge0; exact: diam_ub.
Qed.

Lemma attention_TV h X i k :
  TV (attention h X i) (attention h X k) <= tanh (rate h * diam X ^ 2).
Proof.
apply: Rle_trans (softmax_TV_diff _ _) _; apply: tanh_le.
by have := logit_oscillation h X i k; lra.
Qed.

Lemma head_rows h X i k :
  norm (vsub (mul (mul (attention h X) X) (WVO h) i) (mul (mul (attention h X) X) (WVO h) k))
    <= diam X * (opnorm (WVO h) * tanh (rate h * diam X ^ 2)).
Proof.
have hd := diam_ge0 X; have hw := opnorm_ge0 (WVO h).
rewrite !mul_row -linB; apply: Rle_trans (opnorm_bound _ _) _.
have -> : diam X * (opnorm (WVO h) * tanh (rate h * diam X ^ 2))
  = opnorm (WVO h) * (tanh (rate h * diam X ^ 2) * diam X) by ring.
apply: Rmult_le_compat_l => //.
have -> : vsub (mul (attention h X) X i) (mul (attention h X) X k)
  = fun e => \sum_j ((attention h X i j - attention h X k j) * X j e).
  by apply: functional_extensionality => e; rewrite /vsub -sumB; apply: eq_bigr => j _; ring.
apply: Rle_trans (barycenters _ _ _) _; try exact: attention_sum1.
by apply: Rmult_le_compat_r => //; exact: attention_TV.
Qed.

(** ** All heads *)
Definition sharp_factor L X : R :=
  \sum_h (opnorm (WVO (heads L h)) * tanh (rate (heads L h) * diam X ^ 2)).

Definition beta2 L : R := \sum_h (opnorm (WQK (heads L h)) * opnorm (WVO (heads L h))).

Theorem sharp_bound L X : diam (self_attention L X) <= diam X * sharp_factor L X.
Proof.
have hd := diam_ge0 X.
apply: diam_lub => [|i k].
  apply: Rmult_le_pos => //; apply: sum_ge0 => h _; apply: Rmult_le_pos; first exact: opnorm_ge0.
  by apply: tanh_ge0; have := rate_ge0 (heads L h); nra.
rewrite self_attention_rows; apply: Rle_trans (norm_sum _) _.
by rewrite /sharp_factor -sumZl; apply: sum_le => h _; exact: head_rows.
Qed.

Theorem cubic_bound L X :
  diam X * sharp_factor L X <= beta2 L / (4 * root_key_width D) * diam X ^ 3.
Proof.
have hd := diam_ge0 X.
have -> : beta2 L / (4 * root_key_width D) * diam X ^ 3
  = diam X * (\sum_h (opnorm (WVO (heads L h)) * (rate (heads L h) * diam X ^ 2))).
  have -> : \sum_h (opnorm (WVO (heads L h)) * (rate (heads L h) * diam X ^ 2))
    = beta2 L * (/ (4 * root_key_width D) * diam X ^ 2).
    by rewrite /beta2 -sumZr; apply: eq_bigr => h _; rewrite /rate /Rdiv; ring.
  by rewrite /Rdiv; ring.
apply: Rmult_le_compat_l => //; apply: sum_le => h _.
apply: Rmult_le_compat_l; first exact: opnorm_ge0.
by apply: tanh_le_id; have := rate_ge0 (heads L h); nra.
Qed.
End SharpLayer.

(** ** The two tokens that attain the bound *)
Section Equality.
Variables K D V H : finType.
Implicit Types (e w : K -> R) (L : layer K D V H).

(** The tokens [+ (delta/2) e] and [- (delta/2) e]. *)
Definition opposite (delta : R) e : bool -> K -> R :=
  fun b => vscale (two (delta / 2) (- (delta / 2)) b) e.

Lemma diam_bool (Y : bool -> K -> R) : diam Y = norm (vsub (Y true) (Y false)).
Proof.
apply: Rle_antisym; last exact: diam_ub.
apply: diam_lub => [|[] []]; try exact: norm_ge0; try by rewrite vsub_refl norm_0; exact: norm_ge0.
- exact: Rle_refl.
- by rewrite norm_vsubC; exact: Rle_refl.
Qed.

Lemma opposite_difference delta e : vsub (opposite delta e true) (opposite delta e false)
  = vscale delta e.
Proof. by apply: functional_extensionality => k; rewrite /vsub /opposite /vscale /=; field. Qed.

Lemma diam_opposite delta e : 0 <= delta -> norm e = 1 -> diam (opposite delta e) = delta.
Proof. by move=> h he; rewrite diam_bool opposite_difference normZ he Rabs_pos_eq //; ring. Qed.

(** The weight that each of the two tokens gives to the first: [(1 +- tanh (c delta^2)) / 2]. *)
Lemma opposite_attention (h : head K D V) delta q e b : 0 <= q -> norm e = 1 ->
  WQK h = scale q (outer e e) -> (forall x, bQ h x = 0) ->
  attention h (opposite delta e) b true
    = / 2 + two (/ 2) (- / 2) b * tanh (rate h * delta ^ 2).
Proof.
move=> hq he hW hb; have hne : dot e e = 1 by rewrite -norm_sq he; ring.
rewrite qk_reduction; set z := fun j => _.
have hz : z = two (z true) (z false) by apply: functional_extensionality => -[].
rewrite hz softmax_two.
have zE j : z j = q * (two (delta / 2) (- (delta / 2)) b * two (delta / 2) (- (delta / 2)) j)
                  / root_key_width D.
  rewrite /z hW; congr (_ / _).
  have -> : lin (tr (WK h)) (bQ h) = fun _ => 0.
    by apply: functional_extensionality => k; apply: sum_eq0 => x _; rewrite hb; ring.
  rewrite -[mul _ _ b j]/(dot (affine (opposite delta e) (scale q (outer e e)) (fun _ => 0) b)
                            (opposite delta e j)).
  have -> : affine (opposite delta e) (scale q (outer e e)) (fun _ => 0) b
    = lin (scale q (outer e e)) (opposite delta e b).
    by apply: functional_extensionality => k; rewrite /affine /mul /lin; ring.
  by rewrite lin_scale lin_outer /opposite !(dotZl, dotZr) hne; ring.
rewrite !zE {z hz zE} /rate hW opnorm_outer //.
have -> : (q * (two (delta / 2) (- (delta / 2)) b * two (delta / 2) (- (delta / 2)) true)
             / root_key_width D
           - q * (two (delta / 2) (- (delta / 2)) b * two (delta / 2) (- (delta / 2)) false)
             / root_key_width D) / 2
          = two 1 (-1) b * (q / (4 * root_key_width D) * delta ^ 2).
  by rewrite /Rdiv Rinv_mult; move: (/ root_key_width D) => r; case: b => /=; field.
case: b => /=; first by rewrite Rmult_1_l.
have -> x : -1 * x = - x by move=> *; ring.
by rewrite tanh_opp; ring.
Qed.

(** The first output of a head with opposite tokens. *)
Lemma opposite_mix (h : head K D V) delta q e b : 0 <= q -> norm e = 1 ->
  WQK h = scale q (outer e e) -> (forall x, bQ h x = 0) ->
  mul (attention h (opposite delta e)) (opposite delta e) b
    = vscale (tanh (rate h * delta ^ 2)) (opposite delta e b).
Proof.
move=> hq he hW hb; apply: functional_extensionality => k.
have := attention_sum1 h (opposite delta e) b; rewrite big_bool /= => h1.
rewrite /mul big_bool /= /vscale.
have -> : attention h (opposite delta e) b false = 1 - attention h (opposite delta e) b true by lra.
rewrite (opposite_attention delta b hq he hW hb) /opposite /vscale.
by case: b {h1} => /=; field.
Qed.

Theorem sharp_bound_attained (q v : H -> R) (delta : R) e w L :
  0 <= delta -> norm e = 1 -> norm w = 1 ->
  (forall h, 0 <= q h /\ 0 <= v h /\
     WQK (heads L h) = scale (q h) (outer e e) /\ WVO (heads L h) = scale (v h) (outer e w) /\
     (forall x, bQ (heads L h) x = 0)) ->
  let X := opposite delta e in diam (self_attention L X) = diam X * sharp_factor L X.
Proof.
move=> hd he hw hL X; rewrite /sharp_factor diam_opposite // diam_bool self_attention_rows.
have hne : dot e e = 1 by rewrite -norm_sq he; ring.
pose s := \sum_h (opnorm (WVO (heads L h)) * tanh (rate (heads L h) * delta ^ 2)).
have -> : (fun k => \sum_h vsub (mul (mul (attention (heads L h) X) X) (WVO (heads L h)) true)
                        (mul (mul (attention (heads L h) X) X) (WVO (heads L h)) false) k)
        = vscale (delta * s) w.
  apply: functional_extensionality => k.
  have -> : vscale (delta * s) w k = \sum_h (delta * w k * (opnorm (WVO (heads L h))
              * tanh (rate (heads L h) * delta ^ 2))).
    by rewrite sumZl /vscale /s; ring.
  apply: eq_bigr => h _; have [hq [hv [hQ [hV hb]]]] := hL h.
  rewrite -[vsub _ _]/(vsub (lin (WVO (heads L h)) (mul (attention (heads L h) X) X true))
                            (lin (WVO (heads L h)) (mul (attention (heads L h) X) X false))).
  rewrite -linB /X !(opposite_mix delta _ hq he hQ hb) hV opnorm_outer //.
  have -> : vsub (vscale (tanh (rate (heads L h) * delta ^ 2)) (opposite delta e true))
                 (vscale (tanh (rate (heads L h) * delta ^ 2)) (opposite delta e false))
            = vscale (tanh (rate (heads L h) * delta ^ 2) * delta) e.
    by apply: functional_extensionality => x; rewrite /vsub /vscale /opposite /vscale /=; field.
  by rewrite lin_scale lin_outer dotZl hne /vscale; ring.
rewrite normZ hw Rabs_pos_eq; first by rewrite Rmult_1_r.
apply: Rmult_le_pos => //; apply: sum_ge0 => h _; apply: Rmult_le_pos; first exact: opnorm_ge0.
by apply: tanh_ge0; have := rate_ge0 (heads L h); nra.
Qed.

(** Such layers exist, for every choice of [q], [v], [e], [w], [bK], [bV], [bO] here 0. *)
Definition rank_one_head (d : D) (x : V) (q v : R) e w : head K D V :=
  Head (fun k i => q * e k * (if i == d then 1 else 0)) (fun _ => 0)
       (fun k i => e k * (if i == d then 1 else 0)) (fun _ => 0)
       (fun k i => v * e k * (if i == x then 1 else 0)) (fun _ => 0)
       (fun i k => (if i == x then 1 else 0) * w k).

Lemma rank_one_WQK d x q v e w : WQK (rank_one_head d x q v e w) = scale q (outer e e).
Proof.
apply: matrix_eq => i j; rewrite /WQK /mul /tr /=.
rewrite -[RHS](sum_delta d (fun _ => scale q (outer e e) i j)); apply: eq_bigr => k _.
by rewrite /scale /outer; case: (k == d); ring.
Qed.

Lemma rank_one_WVO d x q v e w : WVO (rank_one_head d x q v e w) = scale v (outer e w).
Proof.
apply: matrix_eq => i j; rewrite /WVO /mul /=.
rewrite -[RHS](sum_delta x (fun _ => scale v (outer e w) i j)); apply: eq_bigr => k _.
by rewrite /scale /outer; case: (k == x); ring.
Qed.
End Equality.

(** Unit vectors of the standard basis. *)
Definition basis (K : finType) (k0 : K) : K -> R := fun k => if k == k0 then 1 else 0.
Lemma norm_basis (K : finType) (k0 : K) : norm (basis k0) = 1.
Proof.
rewrite /norm /dot /basis -[RHS]sqrt_1 -[in RHS](sum_delta k0 (fun _ => 1)); congr sqrt.
by apply: eq_bigr => k _; case: (k == k0); ring.
Qed.

(** ** No constant below 1/4 *)

(** Layers with one coordinate and one head: [q], [v] and the distance [delta] are free. *)
Definition unit_layer (q v : R) : layer unit_finType unit_finType unit_finType unit_finType :=
  Layer (fun _ => rank_one_head tt tt q v (basis tt) (basis tt)) (fun _ => 0).

Lemma root_unit : root_key_width unit_finType = 1.
Proof. by rewrite /root_key_width card_unit sqrt_1. Qed.

Lemma unit_layer_diam q v delta : 0 <= q -> 0 <= v -> 0 <= delta ->
  diam (self_attention (unit_layer q v) (opposite delta (basis tt)))
    = delta * (v * tanh (q / 4 * delta ^ 2)).
Proof.
move=> hq hv hd; have hb := norm_basis (tt : unit_finType).
rewrite (sharp_bound_attained (q := fun _ => q) (v := fun _ => v) (w := basis tt)) //.
  rewrite diam_opposite // /sharp_factor (bigD1 tt) //= big_pred0 => [|[]] //.
  rewrite diam_opposite // /rate rank_one_WQK rank_one_WVO !opnorm_outer // root_unit.
  by rewrite Rplus_0_r Rmult_1_r.
by move=> h; do !split=> //; [exact: rank_one_WQK | exact: rank_one_WVO].
Qed.

Lemma unit_layer_beta2 q v : 0 <= q -> 0 <= v -> beta2 (unit_layer q v) = q * v.
Proof.
move=> hq hv; have hb := norm_basis (tt : unit_finType).
rewrite /beta2 (bigD1 tt) //= big_pred0 => [|[]] //.
by rewrite rank_one_WQK rank_one_WVO !opnorm_outer //; ring.
Qed.

Theorem quarter_is_best (c : R) : c < / 4 ->
  ~ (forall (T K D V H : finType) (L : layer K D V H) (X : T -> K -> R),
       diam (self_attention L X) <= c * beta2 L / root_key_width D * diam X ^ 3).
Proof.
move=> hc h; pose g := / 4 - Rmax c 0; have hg : 0 < g.
  by rewrite /g /Rmax; case: Rle_dec => _; lra.
(* delta^2 = 4 t and q = 1, so that the left side is delta tanh t and the right side 4 c t delta *)
pose t := g; have ht : 0 < t by []; pose delta := sqrt (4 * t).
have hd2 : delta ^ 2 = 4 * t by rewrite /= Rmult_1_r sqrt_sqrt //; lra.
have hd : 0 < delta by apply: sqrt_lt_R0; lra.
have := h _ _ _ _ _ (unit_layer 1 1) (opposite delta (basis tt)).
rewrite unit_layer_diam; try lra.
rewrite unit_layer_beta2; try lra.
rewrite root_unit diam_opposite; [|lra|exact: norm_basis].
have -> : delta ^ 3 = delta * delta ^ 2 by ring.
rewrite hd2; have -> : 1 / 4 * (4 * t) = t by field.
move=> {}h; have h1 : tanh t <= 4 * c * t.
  by apply: (Rmult_le_reg_l delta) => //; move: h; rewrite /Rdiv Rinv_1; lra.
have h2 := tanh_ge_cubic (Rlt_le _ _ ht).
have h3 : c <= Rmax c 0 := Rmax_l _ _.
have h4 : g <= / 4 by rewrite /g; have := Rmax_r c 0; lra.
have : t - t ^ 3 / 3 <= 4 * (/ 4 - g) * t by rewrite /g in h1 h2 *; nra.
by rewrite /t; nra.
Qed.

(** ** Claim collapse.sharp-layer *)
Theorem sharp_layer :
  (forall (T K D V H : finType) (L : layer K D V H) (X : T -> K -> R),
     diam (self_attention L X) <= diam X * (\sum_h (opnorm (WVO (heads L h)) *
       tanh (opnorm (WQK (heads L h)) * diam X ^ 2 / (4 * root_key_width D)))) /\
     diam X * (\sum_h (opnorm (WVO (heads L h)) *
       tanh (opnorm (WQK (heads L h)) * diam X ^ 2 / (4 * root_key_width D))))
       <= (\sum_h (opnorm (WQK (heads L h)) * opnorm (WVO (heads L h))))
          / (4 * root_key_width D) * diam X ^ 3) /\
  (forall (K D V H : finType) (L : layer K D V H) (q v : H -> R) (delta : R) (e w : K -> R),
     0 <= delta -> norm e = 1 -> norm w = 1 ->
     (forall h, 0 <= q h /\ 0 <= v h /\
        WQK (heads L h) = scale (q h) (outer e e) /\ WVO (heads L h) = scale (v h) (outer e w) /\
        (forall x, bQ (heads L h) x = 0)) ->
     let X := opposite delta e in
     diam (self_attention L X) = diam X * (\sum_h (opnorm (WVO (heads L h)) *
       tanh (opnorm (WQK (heads L h)) * diam X ^ 2 / (4 * root_key_width D))))) /\
  (forall c : R, c < / 4 ->
     ~ (forall (T K D V H : finType) (L : layer K D V H) (X : T -> K -> R),
          diam (self_attention L X) <= c * beta2 L / root_key_width D * diam X ^ 3)).
Proof.
have e (K D V H : finType) (L : layer K D V H) (x : R) :
  \sum_h (opnorm (WVO (heads L h)) * tanh (opnorm (WQK (heads L h)) * x / (4 * root_key_width D)))
  = \sum_h (opnorm (WVO (heads L h)) * tanh (rate (heads L h) * x)).
  by apply: eq_bigr => h _; congr (_ * tanh _); rewrite /rate /Rdiv; ring.
split; last split; last exact: quarter_is_best.
- by move=> T K D V H L X; rewrite e; split; [exact: sharp_bound | exact: cubic_bound].
- move=> K D V H L q v delta u w hd hu hw hL X; rewrite e.
  exact: (sharp_bound_attained hd hu hw hL).
Qed.

(** ** Near neighbors *)
Corollary not_2499 :
  ~ (forall (T K D V H : finType) (L : layer K D V H) (X : T -> K -> R),
       diam (self_attention L X) <= 2499 / 10000 * beta2 L / root_key_width D * diam X ^ 3).
Proof. by apply: quarter_is_best; lra. Qed.

(** The argument of tanh cannot be divided by 5 in place of 4. *)
Theorem not_fifth_in_tanh :
  ~ (forall (T K D V H : finType) (L : layer K D V H) (X : T -> K -> R),
       diam (self_attention L X) <= diam X * (\sum_h (opnorm (WVO (heads L h)) *
         tanh (opnorm (WQK (heads L h)) * diam X ^ 2 / (5 * root_key_width D))))).
Proof.
move=> h; have := h _ _ _ _ _ (unit_layer 1 1) (opposite 1 (basis tt)).
have hb := norm_basis (tt : unit_finType); have h01 := Rle_0_1.
rewrite unit_layer_diam ?diam_opposite //.
rewrite (bigD1 tt) //= big_pred0 => [|[]] //.
rewrite rank_one_WQK rank_one_WVO !opnorm_outer // root_unit.
have : tanh (1 * (1 * (1 * 1)) / (5 * 1)) < tanh (1 / 4 * (1 * (1 * 1))).
  by apply: tanh_increasing; lra.
by lra.
Qed.
