(** * The published theorem for one head, with gamma

    Claims collapse.single-layer and collapse.single-head (Theorem 2.2 of version 2 of Dong et al.,
    one layer and over depth) and collapse.single-layer-sharp, its best constant.  With
    [E = R WQK R^T / sqrt d_qk], [D_i = osc E_i] and
      [gamma = sqrt (\sum_i D_i max_i D_i) / (2 |E|_1)]
    one head leaves at most [gamma / sqrt 2 * beta / sqrt d_qk * |R|_(1,oo)^3], whatever the [D_i]
    are, and nothing if [E = 0].  The published constant [4 gamma], with its condition on the [D_i],
    is weaker by a factor of [4 sqrt 2].  Two tokens of one feature show that no multiple of [gamma]
    below [1 / sqrt 2] will do. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter Attention.
From AttnVerify Require Import SharpLayer SharpDepth Threshold Composite Critical CompositeCollapse.
From AttnVerify Require Import ManyHeads SingleHead.
Require Import Psatz Classical_Prop FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Section GammaLayer.
Variables T K D V : finType.
Implicit Types (X : T -> K -> R) (L : layer K D V unit_finType) (x : K -> R).

(** [sqrt (\sum_i D_i max_i D_i) / 2], which is [gamma |E|_1]. *)
Definition gamma_times (E : T -> T -> R) : R := sqrt ((\sum_i osc (E i)) * \max_i osc (E i)) / 2.

Lemma gamma_times_ge0 (E : T -> T -> R) : 0 <= gamma_times E.
Proof. by apply: Rmult_le_pos; [exact: sqrt_pos | lra]. Qed.

Lemma column_sum_gt0 (E : T -> T -> R) : E <> zero -> 0 < max_column_sum E.
Proof.
move=> hE; case: (Rle_lt_or_eq_dec _ _ (max_column_sum_ge0 E)) => // h0; case: hE.
apply: matrix_eq => i j; rewrite /zero.
have h1 : Rabs (E i j) <= 0.
  rewrite h0; apply: Rle_trans (column_sum_le E j).
  by apply: (sum_ge_term (F := fun i => Rabs (E i j))) => i'; exact: Rabs_pos.
by case: (Req_dec (E i j) 0) => // /Rabs_no_R0; have := Rabs_pos (E i j); lra.
Qed.

Lemma gamma_timesE (E : T -> T -> R) : E <> zero -> gamma_times E = gamma_of E * max_column_sum E.
Proof.
by move=> hE; have h := column_sum_gt0 hE; rewrite /gamma_times /gamma_of; field; lra.
Qed.

Lemma moved_composite L X x : let h := heads L tt in
  composite (mul (moved h X x) (centered X x))
    <= gamma_times (residual_scores h (centered X x)) / sqrt 2 * composite (centered X x).
Proof.
move=> h; set E := residual_scores h (centered X x); set R := centered X x.
have h2 : 0 < sqrt 2 by apply: sqrt_lt_R0; lra.
have h22 := sqrt_sqrt 2 ltac:(lra); have hg := gamma_times_ge0 E; have hR := composite_ge0 R.
have c0 := max_column_sum_ge0 R; have r0 := max_row_sum_ge0 R.
have hsum : 0 <= \sum_i osc (E i) by apply: sum_ge0 => i _; exact: osc_ge0.
have hmax : 0 <= \max_i osc (E i) := max_ge0 _.
have i2 : 0 < / sqrt 2 := Rinv_0_lt_compat _ h2.
apply: square_le.
  by apply: Rmult_le_pos => //; apply: Rmult_le_pos => //; lra.
rewrite composite_sq.
have hcol : max_column_sum (mul (moved h X x) R) <= (\sum_i osc (E i)) / 4 * max_column_sum R.
  apply: Rle_trans (column_by_TV h X x) _; apply: Rmult_le_compat_r => //.
  rewrite /Rdiv -sumZr; apply: sum_le => i _; exact: moved_TV_le.
have hrow : max_row_sum (mul (moved h X x) R) <= (\max_i osc (E i)) / 2 * max_row_sum R.
  apply: Rle_trans (row_sum_mul _ _) _; apply: Rmult_le_compat_r => //.
  apply: max_lub => [|i]; first by lra.
  rewrite moved_TV; have := moved_TV_le h X x i; rewrite -/R -/E.
  by have := max_ub (fun i => osc (E i)) i; rewrite /=; lra.
have h3 := Rmult_le_compat _ _ _ _ (max_ge0 _) (max_ge0 _) hcol hrow.
apply: Rle_trans h3 _; right.
have hs := sqrt_sqrt _ (Rmult_le_pos _ _ hsum hmax).
have -> : gamma_times E / sqrt 2 * composite R * (gamma_times E / sqrt 2 * composite R)
  = (gamma_times E * gamma_times E) * (composite R * composite R) / (sqrt 2 * sqrt 2).
  by field; lra.
have -> : gamma_times E * gamma_times E = (\sum_i osc (E i)) * (\max_i osc (E i)) / 4.
  transitivity (sqrt ((\sum_i osc (E i)) * \max_i osc (E i))
    * sqrt ((\sum_i osc (E i)) * \max_i osc (E i)) / 4); first by rewrite /gamma_times; field.
  by rewrite hs.
by rewrite composite_sq h22; field.
Qed.

Theorem gamma_layer L X x : exists y,
  composite (sub (self_attention L X) (constant_rows y))
    <= gamma_times (residual_scores (heads L tt) (sub X (constant_rows x))) / sqrt 2
       * composite (WVO (heads L tt)) * composite (sub X (constant_rows x)).
Proof.
have i2 : 0 < / sqrt 2 by apply: Rinv_0_lt_compat; apply: sqrt_lt_R0; lra.
have hw := composite_ge0 (WVO (heads L tt)).
case: (pickP (fun _ : T => true)) => [t _|hT]; last first.
  have none (Y : T -> K -> R) : composite Y = 0.
    by rewrite /composite /max_row_sum big_pred0 // Rmult_0_r sqrt_0.
  by exists (fun _ => 0); rewrite !none; lra.
exists (output_center L X x); rewrite (output_about_center L X x t).
have -> : (fun i k => \sum_a mul (mul (moved (heads L a) X x) (centered X x)) (WVO (heads L a)) i k)
  = mul (mul (moved (heads L tt) X x) (centered X x)) (WVO (heads L tt)).
  by apply: matrix_eq => i k; rewrite sum_unit.
apply: Rle_trans (proj1 submultiplicative _ _ _ _ _) _.
have := Rmult_le_compat_r _ _ _ hw (moved_composite L X x); rewrite /centered; lra.
Qed.

(** The same with [gamma], [beta] and [|R|^3]. *)
Theorem gamma_cubic L X x :
  let E := residual_scores (heads L tt) (sub X (constant_rows x)) in
  (E <> zero -> exists y, composite (sub (self_attention L X) (constant_rows y))
     <= gamma_of E / sqrt 2 * (single_beta L / root_key_width D)
        * composite (sub X (constant_rows x)) ^ 3) /\
  (E = zero -> exists y, composite (sub (self_attention L X) (constant_rows y)) = 0).
Proof.
move=> E; have [y hy] := gamma_layer L X x; rewrite -/E in hy.
have i2 : 0 < / sqrt 2 by apply: Rinv_0_lt_compat; apply: sqrt_lt_R0; lra.
have hw := composite_ge0 (WVO (heads L tt)); have hR := composite_ge0 (sub X (constant_rows x)).
split=> hE; exists y; last first.
  apply: Rle_antisym; last exact: composite_ge0.
  apply: Rle_trans hy _; right.
  have -> : gamma_times E = 0.
    rewrite /gamma_times sum_eq0 => [|i _]; first by rewrite Rmult_0_l sqrt_0; field.
    apply: Rle_antisym; last exact: osc_ge0.
    by apply: osc_lub => [|j l]; rewrite ?hE /zero; lra.
  by rewrite /Rdiv; ring.
apply: Rle_trans hy _; rewrite (gamma_timesE hE).
have hs := scores_size (heads L tt) X x; rewrite /centered -/E in hs.
have hg : 0 <= gamma_of E.
  have h := column_sum_gt0 hE; have := gamma_times_ge0 E; rewrite (gamma_timesE hE) => h'.
  by apply: (Rmult_le_reg_r (max_column_sum E)); lra.
set c := composite (sub X _) in hs hR *; set w := composite (WVO _) in hw *.
have -> : gamma_of E / sqrt 2 * (single_beta L / root_key_width D) * c ^ 3
  = gamma_of E * / sqrt 2 * w * c * (max_column_sum (WQK (heads L tt)) / root_key_width D * c ^ 2).
  by rewrite /single_beta -/w /Rdiv; ring.
have -> : gamma_of E * max_column_sum E / sqrt 2 * w * c
  = gamma_of E * / sqrt 2 * w * c * max_column_sum E by rewrite /Rdiv; ring.
apply: Rmult_le_compat_l => //; apply: Rmult_le_pos => //; apply: Rmult_le_pos => //.
by apply: Rmult_le_pos => //; lra.
Qed.
End GammaLayer.

(** ** Claim collapse.single-layer *)
Theorem single_layer_with_gamma (T K D V : finType) (L : layer K D V unit_finType)
    (X : T -> K -> R) (x : K -> R) :
  let E := residual_scores (heads L tt) (sub X (constant_rows x)) in
  (forall i, osc (E i) <= critical) ->
  (E <> zero -> exists y, composite (sub (self_attention L X) (constant_rows y))
     <= 4 * gamma_of E * single_beta L / root_key_width D
        * composite (sub X (constant_rows x)) ^ 3) /\
  (E = zero -> exists y, composite (sub (self_attention L X) (constant_rows y)) = 0).
Proof.
move=> E _; have [h1 h2] := gamma_cubic L X x; split=> // hE; have [y hy] := h1 hE; exists y.
apply: Rle_trans hy _; rewrite -/E.
have h3 : 0 <= composite (sub X (constant_rows x)) ^ 3 by apply: pow_le; exact: composite_ge0.
apply: Rmult_le_compat_r => //.
have h4 := single_beta_ge0 L; have hr := inv_root_ge0 D.
have hg : 0 <= gamma_of E.
  have h := column_sum_gt0 hE; have := gamma_times_ge0 E; rewrite (gamma_timesE hE) => h'.
  by apply: (Rmult_le_reg_r (max_column_sum E)); lra.
have h5 : 0 <= gamma_of E * (single_beta L / root_key_width D).
  by apply: Rmult_le_pos => //; exact: Rmult_le_pos.
have h6 : / sqrt 2 <= 4.
  have h : 1 <= sqrt 2 by rewrite -[X in X <= _]sqrt_1; apply: sqrt_le_1_alt; lra.
  by have := Rinv_le_contravar 1 (sqrt 2) Rlt_0_1 h; rewrite Rinv_1; lra.
have := Rmult_le_compat_l _ _ _ h5 h6; rewrite /Rdiv; lra.
Qed.

(** ** Claim collapse.single-head *)
Theorem single_head_with_gamma (T K D V : finType) (net : nat -> layer K D V unit_finType)
    (X : T -> K -> R) (x : nat -> K -> R) (beta gamma : R) (n : nat) :
  let E := fun l =>
    residual_scores (heads (net l) tt) (sub (states net X l) (constant_rows (x l))) in
  (forall l, Nat.le l n -> minimizing_center (states net X l) (x l)) ->
  (forall l, Nat.lt l n -> forall i, osc (E l i) <= critical) ->
  (forall l, Nat.lt l n -> single_beta (net l) <= beta) -> 0 <= beta -> 0 <= gamma ->
  (forall l, Nat.lt l n -> E l <> zero -> gamma_of (E l) <= gamma) ->
  composite (sub (states net X n) (constant_rows (x n)))
    <= (4 * gamma * beta / root_key_width D) ^ (Nat.div (Nat.sub (Nat.pow 3 n) 1) 2)
       * composite (sub X (constant_rows (x 0%nat))) ^ Nat.pow 3 n.
Proof.
move=> E hx hE hb hb0 hg0 hg; have hr := inv_root_ge0 D.
have hc0 : 0 <= 4 * gamma * beta / root_key_width D.
  by apply: Rmult_le_pos => //; apply: Rmult_le_pos => //; lra.
apply: (@cubic_recursion_upto _ (fun l => composite (sub (states net X l) (constant_rows (x l)))))
  => //.
- by move=> l; exact: composite_ge0.
- move=> l hl; have [h1 h2] := single_layer_with_gamma (L := net l) (hE l hl).
  have h3 : 0 <= composite (sub (states net X l) (constant_rows (x l))) ^ 3.
    by apply: pow_le; exact: composite_ge0.
  have best y := hx (S l) hl y.
  case: (classic (E l = zero)) => hz.
  + have [y hy] := h2 hz; apply: Rle_trans (best y) _; rewrite hy; exact: Rmult_le_pos.
  + have [y hy] := h1 hz; apply: Rle_trans (best y) _; apply: Rle_trans hy _.
    apply: Rmult_le_compat_r => //; apply: Rmult_le_compat_r => //.
    have h4 := single_beta_ge0 (net l); have h5 := hb l hl; have h6 := hg l hl hz.
    have h7 := Rmult_le_compat_r _ _ _ h4 h6; have h8 := Rmult_le_compat_l _ _ _ hg0 h5.
    by move: h7 h8; rewrite /E; lra.
Qed.

(** ** Near neighbor of the depth theorem: without [0 <= gamma]

    One layer with [WQK = 0] and [WV WO = 0], [beta = 1] and [gamma = -1]. *)
Theorem not_negative_gamma :
  ~ (forall (T K D V : finType) (net : nat -> layer K D V unit_finType) (X : T -> K -> R)
       (x : nat -> K -> R) (beta gamma : R) (n : nat),
     let E := fun l =>
       residual_scores (heads (net l) tt) (sub (states net X l) (constant_rows (x l))) in
     (forall l, Nat.le l n -> minimizing_center (states net X l) (x l)) ->
     (forall l, Nat.lt l n -> forall i, osc (E l i) <= critical) ->
     (forall l, Nat.lt l n -> single_beta (net l) <= beta) -> 0 <= beta ->
     (forall l, Nat.lt l n -> E l <> zero -> gamma_of (E l) <= gamma) ->
     composite (sub (states net X n) (constant_rows (x n)))
       <= (4 * gamma * beta / root_key_width D) ^ (Nat.div (Nat.sub (Nat.pow 3 n) 1) 2)
          * composite (sub X (constant_rows (x 0%nat))) ^ Nat.pow 3 n).
Proof.
pose u := unit_finType; pose X := opposite 1 (basis (tt : u)).
pose net (l : nat) := unit_layer 0 0; pose x (l : nat) : u -> R := fun _ => 0.
have hQ : WQK (heads (unit_layer 0 0) tt) = zero.
  by rewrite rank_one_WQK; apply: matrix_eq => i j; rewrite /scale /zero; ring.
have hE (Y : bool -> u -> R) : residual_scores (heads (unit_layer 0 0) tt) Y = zero.
  apply: matrix_eq => i j; rewrite /residual_scores hQ mul0r mul0l.
  by rewrite /zero /Rdiv; ring.
have h1 : states net X 1 = opposite 0 (basis tt).
  rewrite /= /X (rank_one_step tt tt (norm_basis _) 0) ?Rmult_0_l //.
  by lra.
have zeroX : opposite 0 (basis (tt : u)) = zero.
  apply: matrix_eq => b k; rewrite /opposite /vscale /zero.
  by case: b => /=; field.
have c0 : composite (zero : bool -> u -> R) = 0.
  have -> : (zero : bool -> u -> R) = scale 0 zero by apply: matrix_eq => b k;
    rewrite /scale /zero; ring.
  rewrite /composite.
  have -> : max_row_sum (scale 0 (zero : bool -> u -> R)) = 0.
    apply: Rle_antisym; last exact: max_row_sum_ge0.
    by apply: max_lub => [|b];
      [lra | rewrite sum_eq0 => [|k _]; rewrite /scale /zero ?Rmult_0_l ?Rabs_R0; lra].
  by rewrite Rmult_0_r sqrt_0.
have sub0 (Y : bool -> u -> R) : sub Y (constant_rows (fun _ => 0)) = Y.
  by apply: matrix_eq => b k; rewrite /sub /constant_rows; ring.
move=> h; have := h _ _ _ _ net X x 1 (-1) 1%nat; cbv zeta; rewrite !sub0 h1 zeroX c0.
have cX : 0 < composite X.
  case: (Rle_lt_or_eq_dec _ _ (composite_ge0 X)) => // e0.
  have := opposite_column (fun _ => 0) (tt : u) (@X_rows _ (tt : u)); rewrite sub0.
  have := opposite_row (fun _ => 0) (@X_rows _ (tt : u)); rewrite sub0.
  have e2 := composite_sq X; rewrite -e0 in e2.
  rewrite (bigD1 tt) //= big_pred0 => [|[]] //.
  rewrite /basis eqxx Rmult_1_r Rabs_pos_eq; last by lra.
  by rewrite -/X => g1 g2; nra.
have hx l : Nat.le l 1 -> minimizing_center (states net X l) (x l).
  case: l => [|[|l]] hl; last by case: (Nat.nle_succ_0 l (le_S_n _ _ hl)).
  - exact: (@X_center _ (tt : u)).
  - move=> y; rewrite h1 zeroX /x sub0 c0; exact: composite_ge0.
move=> /(_ hx) {}h.
have : 0 <= (4 * -1 * 1 / root_key_width u) ^ Nat.div (Nat.sub (Nat.pow 3 1) 1) 2
  * composite X ^ Nat.pow 3 1.
  apply: h => [l _ i|l _||l _].
  - rewrite hE; apply: osc_lub => [|j k]; rewrite /zero; have := critical_bounds; lra.
  - rewrite /single_beta hQ; have -> : max_column_sum (zero : u -> u -> R) = 0.
      apply: Rle_antisym; last exact: max_column_sum_ge0.
      by apply: max_lub => [|j]; [lra | rewrite sum_eq0 => [|k _]; rewrite /zero ?Rabs_R0; lra].
    by lra.
  - by lra.
  - by rewrite hE.
rewrite /= root_unit; have := Rmult_lt_0_compat _ _ cX (Rmult_lt_0_compat _ _ cX cX).
by rewrite Rmult_1_r; lra.
Qed.

(** ** Claim collapse.single-layer-sharp

    Two tokens of one feature, [+- 1/2], with [WQK = 4 s] and [WV WO = 1]: the scores are [+- s], so
    [gamma = 1/sqrt 2], and the left side is at least [tanh s / sqrt 2]. *)
Section Best.
Notation u := unit_finType.
Variable s : R.
Hypothesis hs : 0 < s.
Let L := unit_layer (4 * s) 1.
Let X := opposite 1 (basis (tt : u)).
Let E := residual_scores (heads L tt) (sub X (constant_rows (fun _ => 0))).

Lemma best_scores i j : E i j = two s (- s) i * two 1 (-1) j.
Proof.
have hb : dot (basis (tt : u)) (basis tt) = 1 by rewrite -norm_sq norm_basis; ring.
rewrite /E /residual_scores root_unit rank_one_WQK sub_0.
rewrite -[mul _ _ i j]/(dot (lin (scale (4 * s) (outer (basis tt) (basis tt))) (X i)) (X j)).
by rewrite lin_scale lin_outer /X /opposite !(dotZl, dotZr) hb; case: i; case: j => /=; field.
Qed.

Lemma best_gamma : E <> zero /\ gamma_of E <= / sqrt 2.
Proof.
have hE : E <> zero by move/(f_equal (fun A => A true true)); rewrite best_scores /zero /=; lra.
split=> //; have h2 : 0 < sqrt 2 by apply: sqrt_lt_R0; lra.
have hosc i : osc (E i) <= 2 * s.
  apply: osc_lub => [|j l]; first by lra.
  by rewrite !best_scores; case: i; case: j; case: l => /=; lra.
have hsum : \sum_i osc (E i) <= 4 * s by rewrite big_bool /=; have := hosc true;
  have := hosc false; lra.
have hmax : \max_i osc (E i) <= 2 * s by apply: max_lub => [|i]; [lra | exact: hosc].
have h0 : 0 <= \sum_i osc (E i) by apply: sum_ge0 => i _; exact: osc_ge0.
have hprod := Rmult_le_compat _ _ _ _ h0 (max_ge0 _) hsum hmax.
have hcol : 2 * s <= max_column_sum E.
  apply: Rle_trans (column_sum_le E true); rewrite big_bool !best_scores /=.
  by rewrite !Rmult_1_r Rabs_Ropp Rabs_pos_eq; lra.
have hroot : sqrt ((\sum_i osc (E i)) * \max_i osc (E i)) <= 2 * s * sqrt 2.
  have -> : 2 * s * sqrt 2 = sqrt (4 * s * (2 * s)).
    have -> : 4 * s * (2 * s) = Rsqr (2 * s) * 2 by rewrite /Rsqr; ring.
    rewrite sqrt_mult; [by rewrite sqrt_Rsqr //; lra | exact: Rle_0_sqr | lra].
  exact: sqrt_le_1_alt.
rewrite /gamma_of; apply: (Rmult_le_reg_r (2 * max_column_sum E)); first by lra.
have -> : sqrt ((\sum_i osc (E i)) * \max_i osc (E i)) / (2 * max_column_sum E)
  * (2 * max_column_sum E) = sqrt ((\sum_i osc (E i)) * \max_i osc (E i)) by field; lra.
apply: Rle_trans hroot _.
have h22 := sqrt_sqrt 2 ltac:(lra).
have e : / sqrt 2 * (2 * max_column_sum E) = sqrt 2 * max_column_sum E.
  by rewrite -{2}h22; field; lra.
by rewrite e; have := Rmult_le_compat_l _ _ _ (Rlt_le _ _ h2) hcol; lra.
Qed.

Lemma best_left y : tanh s * tanh s / 2
  <= composite (sub (self_attention L X) (constant_rows y)) ^ 2.
Proof.
have ht := tanh_gt0 hs.
have hrow b k : self_attention L X b k
  = two (/ 2 * tanh s * basis (tt : u) k) (- (/ 2 * tanh s * basis (tt : u) k)) b.
  rewrite (rank_one_step tt tt (norm_basis _) 1) ?root_unit; last by lra.
  have -> : 4 * s / (4 * 1) * 1 ^ 2 = s by field.
  by rewrite /opposite /vscale; case: b => /=; field.
have h1 := opposite_column y (tt : u) hrow; have h2 := opposite_row y hrow.
rewrite sum_unit in h2; rewrite /basis eqxx Rmult_1_r in h1 h2.
rewrite Rabs_pos_eq in h1; last by lra.
rewrite Rabs_pos_eq in h2; last by lra.
rewrite [composite _ ^ 2]/= Rmult_1_r composite_sq.
have h3 : 0 <= 2 * (/ 2 * tanh s) by lra. have h4 : 0 <= / 2 * tanh s by lra.
by have := Rmult_le_compat _ _ _ _ h3 h4 h1 h2; lra.
Qed.

Lemma best_right : single_beta L <= 4 * s /\
  composite (sub X (constant_rows (fun _ => 0))) ^ 3 <= / (2 * sqrt 2).
Proof.
have h2 : 0 < sqrt 2 by apply: sqrt_lt_R0; lra.
have h22 := sqrt_sqrt 2 ltac:(lra).
have col c : 0 <= c -> max_column_sum (scale c (outer (basis (tt : u)) (basis tt))) <= c.
  move=> hc; apply: max_lub => // -[]; rewrite sum_unit /scale /outer /basis eqxx.
  by rewrite Rabs_pos_eq; lra.
have row c : 0 <= c -> max_row_sum (scale c (outer (basis (tt : u)) (basis tt))) <= c.
  move=> hc; apply: max_lub => // -[]; rewrite sum_unit /scale /outer /basis eqxx.
  by rewrite Rabs_pos_eq; lra.
split.
- rewrite /single_beta /L rank_one_WQK rank_one_WVO.
  have hq : 0 <= 4 * s by lra.
  have hw : composite (scale 1 (outer (basis (tt : u)) (basis tt))) <= 1.
    apply: square_le; first by lra.
    rewrite composite_sq.
    have := Rmult_le_compat _ _ _ _ (max_ge0 _) (max_ge0 _) (col 1 Rle_0_1) (row 1 Rle_0_1).
    by rewrite /max_column_sum /max_row_sum; lra.
  by have := Rmult_le_compat _ _ _ _ (max_column_sum_ge0 _) (composite_ge0 _) (col _ hq) hw; lra.
- rewrite sub_0; have hx := @X_composite _ (tt : u); have hx0 := composite_ge0 X.
  have h : composite X <= / sqrt 2.
    apply: square_le; first by apply: Rlt_le; exact: Rinv_0_lt_compat.
    by rewrite -Rinv_mult h22.
  have -> : / (2 * sqrt 2) = (/ sqrt 2) ^ 3.
    by rewrite -{1}h22; field; lra.
  by apply: pow_incr.
Qed.
End Best.

Theorem gamma_constant_is_best (c : R) : c < / sqrt 2 ->
  ~ (forall (T K D V : finType) (L : layer K D V unit_finType) (X : T -> K -> R) (x : K -> R),
       let E := residual_scores (heads L tt) (sub X (constant_rows x)) in
       E <> zero -> exists y, composite (sub (self_attention L X) (constant_rows y))
         <= c * gamma_of E * (single_beta L / root_key_width D)
            * composite (sub X (constant_rows x)) ^ 3).
Proof.
have h2 : 0 < sqrt 2 by apply: sqrt_lt_R0; lra.
have h22 := sqrt_sqrt 2 ltac:(lra); have i2 := Rinv_0_lt_compat _ h2.
move=> hc h; pose c' := Rmax c 0; have hc' : 0 <= c' := Rmax_r _ _.
have hcc : c <= c' := Rmax_l _ _.
have hc2 : c' < / sqrt 2 by apply: Rmax_lub_lt.
(* tanh s / s > c' sqrt 2 for s = 1 - c' sqrt 2 *)
have hk : c' * sqrt 2 < 1.
  by have := Rmult_lt_compat_r _ _ _ h2 hc2; rewrite Rinv_l; lra.
have hk0 : 0 <= c' * sqrt 2 by apply: Rmult_le_pos; lra.
pose s := 1 - c' * sqrt 2; have hs : 0 < s by rewrite /s; lra.
have [hE hg] := best_gamma hs; have [hb hx] := best_right hs.
have [y hy] := h _ _ _ _ (unit_layer (4 * s) 1) (opposite 1 (basis tt)) (fun _ => 0) hE.
have hl := best_left hs y; rewrite root_unit in hy.
set l := composite (sub (self_attention _ _) _) in hy hl; have hl0 : 0 <= l := composite_ge0 _.
set g := gamma_of _ in hg hy; set r := composite _ ^ 3 in hx hy; set b := single_beta _ in hb hy.
have hr0 : 0 <= r by apply: pow_le; exact: composite_ge0.
have hb0 : 0 <= b := single_beta_ge0 _.
have hg0 : 0 <= g.
  have hp := column_sum_gt0 hE; have hp' := gamma_times_ge0
    (residual_scores (heads (unit_layer (4 * s) 1) tt)
      (sub (opposite 1 (basis tt)) (constant_rows (fun _ => 0)))).
  by rewrite (gamma_timesE hE) -/g in hp'; apply: (Rmult_le_reg_r _ _ _ hp); lra.
have h1 : l <= c' * / sqrt 2 * (4 * s) * / (2 * sqrt 2).
  apply: (@Rle_trans _ (c' * g * b * r)).
    apply: Rle_trans hy _; rewrite /Rdiv Rinv_1 Rmult_1_r.
    have hgbr : 0 <= g * b * r by apply: Rmult_le_pos => //; exact: Rmult_le_pos.
    by have := Rmult_le_compat_r _ _ _ hgbr hcc; lra.
  apply: Rmult_le_compat => //; first by apply: Rmult_le_pos => //; exact: Rmult_le_pos.
  apply: Rmult_le_compat => //; first exact: Rmult_le_pos.
  exact: Rmult_le_compat_l.
have e1 : c' * / sqrt 2 * (4 * s) * / (2 * sqrt 2) = c' * s.
  have -> : / (2 * sqrt 2) = / 2 * / sqrt 2 by rewrite Rinv_mult.
  have ii : / sqrt 2 * / sqrt 2 = / 2 by rewrite -Rinv_mult h22.
  have -> : c' * / sqrt 2 * (4 * s) * (/ 2 * / sqrt 2) = 2 * (c' * s)
    * (/ sqrt 2 * / sqrt 2) by field; lra.
  by rewrite ii; field.
rewrite e1 in h1.
have ht := tanh_ge_cubic (Rlt_le _ _ hs); have ht0 := tanh_gt0 hs.
have h3 : tanh s <= c' * sqrt 2 * s.
  apply: square_le; first by apply: Rmult_le_pos; lra.
  have h4 : l ^ 2 <= (c' * s) * (c' * s).
    by rewrite /= Rmult_1_r; apply: Rmult_le_compat.
  have -> : c' * sqrt 2 * s * (c' * sqrt 2 * s) = (sqrt 2 * sqrt 2) * ((c' * s) * (c' * s)) by ring.
  by rewrite h22; lra.
have h5 : c' * sqrt 2 = 1 - s by rewrite /s; ring.
rewrite h5 in h3; have hs1 : s <= 1 by rewrite /s; lra.
by nra.
Qed.

Theorem single_layer_sharp :
  (forall (T K D V : finType) (L : layer K D V unit_finType) (X : T -> K -> R) (x : K -> R),
     let E := residual_scores (heads L tt) (sub X (constant_rows x)) in
     (E <> zero -> exists y, composite (sub (self_attention L X) (constant_rows y))
        <= gamma_of E / sqrt 2 * (single_beta L / root_key_width D)
           * composite (sub X (constant_rows x)) ^ 3) /\
     (E = zero -> exists y, composite (sub (self_attention L X) (constant_rows y)) = 0)) /\
  (forall c : R, c < / sqrt 2 ->
   ~ (forall (T K D V : finType) (L : layer K D V unit_finType) (X : T -> K -> R) (x : K -> R),
       let E := residual_scores (heads L tt) (sub X (constant_rows x)) in
       E <> zero -> exists y, composite (sub (self_attention L X) (constant_rows y))
         <= c * gamma_of E * (single_beta L / root_key_width D)
            * composite (sub X (constant_rows x)) ^ 3)).
Proof. by split; [exact: gamma_cubic | exact: gamma_constant_is_best]. Qed.

Corollary not_gamma_099 :
  ~ (forall (T K D V : finType) (L : layer K D V unit_finType) (X : T -> K -> R) (x : K -> R),
       let E := residual_scores (heads L tt) (sub X (constant_rows x)) in
       E <> zero -> exists y, composite (sub (self_attention L X) (constant_rows y))
         <= 99 / 100 / sqrt 2 * gamma_of E * (single_beta L / root_key_width D)
            * composite (sub X (constant_rows x)) ^ 3).
Proof.
apply: gamma_constant_is_best; have h2 : 0 < / sqrt 2.
  by apply: Rinv_0_lt_compat; apply: sqrt_lt_R0; lra.
by rewrite /Rdiv; lra.
Qed.

Corollary not_gamma_half :
  ~ (forall (T K D V : finType) (L : layer K D V unit_finType) (X : T -> K -> R) (x : K -> R),
       let E := residual_scores (heads L tt) (sub X (constant_rows x)) in
       E <> zero -> exists y, composite (sub (self_attention L X) (constant_rows y))
         <= / 2 * gamma_of E * (single_beta L / root_key_width D)
            * composite (sub X (constant_rows x)) ^ 3).
Proof.
apply: gamma_constant_is_best; apply: Rinv_lt_contravar.
  by apply: Rmult_lt_0_compat; [apply: sqrt_lt_R0; lra | lra].
by have := sqrt_sqrt 2 ltac:(lra); have := sqrt_pos 2; nra.
Qed.
