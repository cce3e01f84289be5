(** * Layers with a skip connection

    Claims skip.no-collapse and skip.lower-bound.  If [WQK = 0] in every head, a layer with a skip
    connection leaves the residual (tokens less their mean) unchanged, whatever the values and the
    biases are.  A layer with a skip connection cannot shrink the diameter by more than the sharp
    bound of its attention part;
      the tokens [+- (delta/2) e] with [WQK = q e e^T], [WV = - v I] attain
    this. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter Attention.
From AttnVerify Require Import SharpLayer Threshold Composite.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

(** ** The mean of the tokens and the residual *)
Definition mean_row (T K : finType) (X : T -> K -> R) : K -> R :=
  fun k => (\sum_i X i k) / INR #|T|.
Definition mean_residual (T K : finType) (X : T -> K -> R) : T -> K -> R :=
  sub X (constant_rows (mean_row X)).

Lemma card_neq0 (T : finType) : T -> INR #|T| <> 0.
Proof.
move=> x; apply: not_0_INR => h0; have : (0 < #|T|)%nat by apply/card_gt0P; exists x.
by rewrite h0.
Qed.

Lemma mean_residual_shift (T K : finType) (X : T -> K -> R) (c : K -> R) :
  mean_residual (add X (constant_rows c)) = mean_residual X.
Proof.
apply: matrix_eq => i k; have hT := card_neq0 i.
rewrite /mean_residual /sub /add /constant_rows /mean_row sumD sum_const.
by field.
Qed.

Section Skip.
Variables T K D V H : finType.
Implicit Types (X : T -> K -> R) (L : layer K D V H).

(** Without [WQK] every token attends in the same way. *)
Lemma attention_same (h : head K D V) X : WQK h = zero ->
  forall i k, attention h X i = attention h X k.
Proof.
move=> h0 i k; rewrite qk_reduction h0; congr softmax; apply: functional_extensionality => j.
by congr (_ / _); apply: eq_bigr => m _; congr (_ * _); rewrite /affine mul0r.
Qed.

Lemma self_attention_same L X : (forall h, WQK (heads L h) = zero) ->
  forall i k, self_attention L X i = self_attention L X k.
Proof.
move=> h0 i k; apply: functional_extensionality => m; rewrite !self_attention_split.
congr (_ + _); apply: eq_bigr => h _.
rewrite -[mul _ _ i m]/(lin (WVO (heads L h)) (lin X (attention (heads L h) X i)) m).
by rewrite (attention_same X (h0 h) i k).
Qed.

(** The [beta] of Dong et al., with their column norm and composite value. *)
Definition dong_beta L : R
  := \max_h (max_column_sum (WQK (heads L h)) * composite (WVO (heads L h))).

(** ** Claim skip.no-collapse *)
Theorem no_collapse L X : (forall h, WQK (heads L h) = zero) ->
  mean_residual (add X (self_attention L X)) = mean_residual X /\ dong_beta L = 0.
Proof.
move=> h0; split.
- case: (pickP (fun _ : T => true)) => [i _|hT].
    have -> : self_attention L X = constant_rows (self_attention L X i).
      by apply: matrix_eq => j k; rewrite (self_attention_same X h0 j i).
    exact: mean_residual_shift.
  by apply: matrix_eq => i; have := hT i.
- rewrite /dong_beta; apply: Rle_antisym; last exact: max_ge0.
  apply: max_lub => [|h]; first by lra.
  have -> : max_column_sum (WQK (heads L h)) = 0; last by lra.
  apply: Rle_antisym; last exact: max_ge0.
  apply: max_lub => [|j]; first by lra.
  by rewrite sum_eq0 => [|i _]; [lra | rewrite h0 /zero Rabs_R0].
Qed.

(** ** Claim skip.lower-bound *)
Theorem skip_lower_bound L X :
  diam X * (1 - sharp_factor L X) <= diam (add X (self_attention L X)).
Proof.
have h := diam_triangle (add X (self_attention L X)) (scale (-1) (self_attention L X)).
have e : add (add X (self_attention L X)) (scale (-1) (self_attention L X)) = X.
  by apply: matrix_eq => i k; rewrite /add /scale; ring.
rewrite e diam_scale Rabs_Ropp Rabs_R1 in h.
by have := sharp_bound L X; lra.
Qed.
End Skip.

Section SkipEquality.
Variables K D V : finType.

Theorem skip_lower_bound_attained (L : layer K D V unit_finType) (q v delta : R) (e : K -> R) :
  0 <= q -> 0 <= v -> 0 <= delta -> norm e = 1 ->
  let h := heads L tt in
  WQK h = scale q (outer e e) -> WVO h = scale (- v) ident -> (forall x, bQ h x = 0) ->
  let X := opposite delta e in
  sharp_factor L X <= 1 ->
  diam (add X (self_attention L X)) = diam X * (1 - sharp_factor L X).
Proof.
move=> hq hv hd he h hQ hV hb X.
have hk : K.
  case: (pickP (fun _ : K => true)) => [k _ //|hK].
  by exfalso; move: he; rewrite /norm /dot big_pred0 ?sqrt_0 => [|k]; [lra | have := hK k].
have hO : opnorm (WVO h) = v by rewrite hV opnorm_scale_ident // Rabs_Ropp Rabs_pos_eq.
have hF : sharp_factor L X = v * tanh (rate h * delta ^ 2).
  by rewrite /sharp_factor sum_unit -/h hO diam_opposite.
have eX : add X (self_attention L X)
  = add (scale (1 - sharp_factor L X) X) (constant_rows (layer_bias L)).
  apply: matrix_eq => b k; rewrite /add self_attention_split sum_unit -/h hF.
  rewrite -[mul (mul _ _) _ b k]/(lin (WVO h) (mul (attention h X) X b) k).
  rewrite (opposite_mix delta b hq he hQ hb) hV lin_scale lin_ident /scale /vscale /constant_rows.
  by rewrite -/(vscale (two (delta / 2) (- (delta / 2)) b) e k) -/(opposite delta e b k) -/X; ring.
move=> h1; apply: Rle_antisym.
  rewrite eX; apply: Rle_trans (diam_triangle _ _) _.
  by rewrite diam_constant_rows diam_scale Rabs_pos_eq; lra.
by have := skip_lower_bound L X; lra.
Qed.
End SkipEquality.

Theorem lower_bound :
  (forall (T K D V H : finType) (L : layer K D V H) (X : T -> K -> R),
     diam (add X (self_attention L X)) >= diam X * (1 - \sum_h (opnorm (WVO (heads L h)) *
       tanh (opnorm (WQK (heads L h)) * diam X ^ 2 / (4 * root_key_width D))))) /\
  (forall (K D V : finType) (L : layer K D V unit_finType) (q v delta : R) (e : K -> R),
     0 <= q -> 0 <= v -> 0 <= delta -> norm e = 1 ->
     let h := heads L tt in
     WQK h = scale q (outer e e) -> WVO h = scale (- v) ident -> (forall x, bQ h x = 0) ->
     let X := opposite delta e in
     let s := v * tanh (q * diam X ^ 2 / (4 * root_key_width D)) in
     opnorm (WVO h) = v /\ opnorm (WQK h) = q /\
     (s <= 1 -> diam (add X (self_attention L X)) = diam X * (1 - s))).
Proof.
have e (K D V H : finType) (L : layer K D V H) (x : R) :
  \sum_h (opnorm (WVO (heads L h)) * tanh (opnorm (WQK (heads L h)) * x / (4 * root_key_width D)))
  = \sum_h (opnorm (WVO (heads L h)) * tanh (rate (heads L h) * x)).
  by apply: eq_bigr => h _; congr (_ * tanh _); rewrite /rate /Rdiv; ring.
split=> [T K D V H L X|K D V L q v delta u hq hv hd hu h hQ hV hb X s].
  by rewrite e; apply: Rle_ge; exact: skip_lower_bound.
have hk : K.
  case: (pickP (fun _ : K => true)) => [k _ //|hK].
  by exfalso; move: hu; rewrite /norm /dot big_pred0 ?sqrt_0 => [|k]; [lra | have := hK k].
have hO : opnorm (WVO h) = v by rewrite hV opnorm_scale_ident // Rabs_Ropp Rabs_pos_eq.
have hQn : opnorm (WQK h) = q by rewrite hQ opnorm_outer.
split=> //; split=> //.
have hs : sharp_factor L X = s.
  rewrite /sharp_factor sum_unit -/h hO /rate hQn /s; congr (_ * tanh _).
  by rewrite /Rdiv; ring.
rewrite -hs => h1; exact: (skip_lower_bound_attained hq hv hd hu hQ hV hb h1).
Qed.

(** ** Near neighbors *)
Local Notation unit := unit_finType.

(** One coordinate, one head, [WQK = q], [WV WO = - v]. *)
Lemma unit_minus q v : 0 <= q -> 0 <= v ->
  let L := unit_layer q (- v) in
  WQK (heads L tt) = scale q (outer (basis tt) (basis tt)) /\
  WVO (heads L tt) = scale (- v) (ident : unit -> unit -> R) /\ (forall x, bQ (heads L tt) x = 0).
Proof.
move=> hq hv; split; first exact: rank_one_WQK.
split=> //; rewrite rank_one_WVO; apply: matrix_eq => -[] [].
by rewrite /scale /outer /basis /ident eqxx; ring.
Qed.

(** The bound with 5 in place of 4 under tanh. *)
Theorem not_lower_bound_fifth :
  ~ (forall (T K D V H : finType) (L : layer K D V H) (X : T -> K -> R),
     diam (add X (self_attention L X)) >= diam X * (1 - \sum_h (opnorm (WVO (heads L h)) *
       tanh (opnorm (WQK (heads L h)) * diam X ^ 2 / (5 * root_key_width D))))).
Proof.
move=> h; have h01 := Rle_0_1; have hb := norm_basis (tt : unit).
have [hQ [hV h0]] := unit_minus h01 h01.
have [hO [hq hd]] := (proj2 lower_bound) _ _ _ (unit_layer 1 (- 1)) 1 1 1 (basis tt) h01 h01 h01
  hb hQ hV h0.
have := h _ _ _ _ _ (unit_layer 1 (- 1)) (opposite 1 (basis tt)).
rewrite sum_unit hO hq diam_opposite // root_unit in hd *.
have h4 := tanh_lt1 (1 * 1 ^ 2 / (4 * 1)); rewrite hd; last by lra.
have : tanh (1 * 1 ^ 2 / (5 * 1)) < tanh (1 * 1 ^ 2 / (4 * 1)) by apply: tanh_increasing; lra.
by lra.
Qed.

(** With a matrix [WQK] that is not zero the residual does change. *)
Theorem not_no_collapse_with_WQK :
  ~ (forall (T K D V H : finType) (L : layer K D V H) (X : T -> K -> R),
       mean_residual (add X (self_attention L X)) = mean_residual X).
Proof.
move=> h; have h01 := Rle_0_1; have hb := norm_basis (tt : unit).
have := h _ _ _ _ _ (unit_layer 1 1) (opposite 1 (basis tt)).
have e (Y : bool -> unit -> R) b : mean_residual Y b tt = Y b tt - (Y true tt + Y false tt) / 2.
  by rewrite /mean_residual /sub /constant_rows /mean_row big_bool card_bool /= ;
    congr (_ - _ / _); ring.
rewrite (rank_one_step tt tt hb) // => /(f_equal (fun A => A true tt)); rewrite !e.
rewrite /add /opposite /vscale /= /basis eqxx root_unit.
have : 0 < tanh (1 / (4 * 1) * (1 * (1 * 1))) by apply: tanh_gt0; lra.
by lra.
Qed.
