(** * The printed bound for many heads is false

    Claim collapse.multi-head-as-printed, which the book refutes. The printed bound multiplies the
    largest [|WQK_h|_1 |W_h|_(1,oo)] by the number of heads. Two tokens [+- (1/2) e] of width [d =
    2^20] and two heads that attend alike, [WQK = e e^T], one key coordinate, no biases, with

      [W_1 = sqrt d e e^T] (one large feature),  [W_2 = e 1^T] (all features a little)

    exceed it with [gamma = 1], and [gamma_h <= 1] for both ([wide_gamma]). Head 1 makes
    a column of the output large and head 2 a row; the composite value, a geometric mean of the
    two, takes the large half of each.

    The width is [2^20 = |20-tuples of bool|]; nothing is computed entry by entry. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter Attention.
From AttnVerify Require Import SharpLayer Composite Critical CompositeCollapse.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

(** [x] is a center of smallest residual of [X]. *)
Definition minimizing_center (T K : finType) (X : T -> K -> R) (x : K -> R) :=
  forall y, composite (sub X (constant_rows x)) <= composite (sub X (constant_rows y)).

(** The [gamma] of Dong et al. for the scores [E] of one head. *)
Definition gamma_of (T : finType) (E : T -> T -> R) : R :=
  sqrt ((\sum_i osc (E i)) * \max_i osc (E i)) / (2 * max_column_sum E).

(** The printed statement, for one layer, with [gamma = 1] or [gamma >= gamma_h] for every head
    whose scores are not 0; [beta] is at least the largest of [|WQK_h|_1 |W_h|_(1,oo)]. *)
Definition printed_bound (T K D V H : finType) (L : layer K D V H) (X : T -> K -> R) (x : K -> R)
    (gamma beta : R) :=
  exists y, composite (sub (self_attention L X) (constant_rows y))
    <= 4 * gamma * beta * INR #|H| / root_key_width D * composite (sub X (constant_rows x)) ^ 3.

Definition printed_statement :=
  forall (T K D V H : finType) (L : layer K D V H) (X : T -> K -> R) (x : K -> R) (gamma beta : R),
    minimizing_center X x ->
    (forall h, max_column_sum (WQK (heads L h)) * composite (WVO (heads L h)) <= beta) ->
    (forall h i, osc (residual_scores (heads L h) (sub X (constant_rows x)) i) <= critical) ->
    gamma = 1 \/ (0 <= gamma /\
      forall h, residual_scores (heads L h) (sub X (constant_rows x)) <> zero ->
        gamma_of (residual_scores (heads L h) (sub X (constant_rows x))) <= gamma) ->
    printed_bound L X x gamma beta.

Section Counterexample.
Variables (K : finType) (k0 : K).
Notation unit := unit_finType.
Let e : K -> R := basis k0.
Let d : R := INR #|K|.
Let ones : K -> R := fun _ => 1.

(** Head [true] writes one large feature, head [false] all features. *)
Definition wide_output (h : bool) : K -> R := if h then vscale (sqrt d) e else ones.
Definition wide_head (h : bool) : head K unit unit :=
  Head (outer e (basis tt)) (fun _ => 0) (outer e (basis tt)) (fun _ => 0)
       (outer e (basis tt)) (fun _ => 0) (outer (basis tt) (wide_output h)).
Definition wide_layer : layer K unit unit bool_finType := Layer wide_head (fun _ => 0).

Let X := opposite 1 e.
Lemma he : norm e = 1. Proof. exact: norm_basis. Qed.
Lemma dot_ee : dot e e = 1. Proof. by rewrite -norm_sq he; ring. Qed.
Lemma dot_tt : dot (basis (tt : unit)) (basis tt) = 1.
Proof. by rewrite -norm_sq norm_basis; ring. Qed.

Lemma d_ge1 : 1 <= d.
Proof. by rewrite -[1]/(INR 1); apply: le_INR; apply/leP; apply/card_gt0P; exists k0. Qed.

Lemma wide_WQK h : WQK (wide_head h) = scale 1 (outer e e).
Proof. by rewrite /WQK /= tr_outer mul_outer dot_tt. Qed.

Lemma wide_WVO h : WVO (wide_head h) = outer e (wide_output h).
Proof. by rewrite /WVO /= mul_outer dot_tt; apply: matrix_eq => i j; rewrite /scale; ring. Qed.

Lemma abs_e k : Rabs (e k) = e k.
Proof. by apply: Rabs_pos_eq; rewrite /e /basis; case: ifP; lra. Qed.
Lemma sum_e : \sum_k e k = 1. Proof. exact: (sum_delta k0 (fun _ => 1)). Qed.
Lemma e_le1 k : e k <= 1. Proof. by rewrite /e /basis; case: ifP; lra. Qed.
Lemma e_k0 : e k0 = 1. Proof. by rewrite /e /basis eqxx. Qed.

(** A matrix with rows [e i * w]. *)
Lemma max_column_sum_outer (w : K -> R) B : 0 <= B -> (forall k, Rabs (w k) <= B) ->
  max_column_sum (outer e w) <= B.
Proof.
move=> hB hw; apply: max_lub => // k.
have -> : \sum_i Rabs (outer e w i k) = (\sum_i e i) * Rabs (w k).
  by rewrite -sumZr; apply: eq_bigr => i _; rewrite /outer Rabs_mult abs_e.
by rewrite sum_e; have := hw k; lra.
Qed.

Lemma max_row_sum_outer (w : K -> R) B : 0 <= B -> \sum_k Rabs (w k) <= B
  -> max_row_sum (outer e w) <= B.
Proof.
move=> hB hw; apply: max_lub => // i.
have -> : \sum_k Rabs (outer e w i k) = e i * (\sum_k Rabs (w k)).
  by rewrite -sumZl; apply: eq_bigr => k _; rewrite /outer Rabs_mult abs_e.
have h0 : 0 <= \sum_k Rabs (w k) by apply: sum_ge0 => k _; exact: Rabs_pos.
by have := e_le1 i; have h1 := Rabs_pos (e i); rewrite abs_e in h1; nra.
Qed.

Lemma wide_composite h : composite (outer e (wide_output h)) <= sqrt d.
Proof.
have hd := d_ge1; have hs := sqrt_pos d; have hss := sqrt_sqrt d ltac:(lra).
apply: square_le => //; rewrite composite_sq hss; case: h => /=.
- have h1 : max_column_sum (outer e (vscale (sqrt d) e)) <= sqrt d.
    apply: max_column_sum_outer => // k; rewrite /vscale Rabs_mult Rabs_pos_eq // abs_e.
    by have := e_le1 k; nra.
  have h2 : max_row_sum (outer e (vscale (sqrt d) e)) <= sqrt d.
    apply: max_row_sum_outer => //; right; transitivity (sqrt d * (\sum_k e k));
      last by rewrite sum_e; ring.
    by rewrite -sumZl; apply: eq_bigr => k _; rewrite /vscale Rabs_mult Rabs_pos_eq // abs_e.
  have := Rmult_le_compat _ _ _ _ (max_column_sum_ge0 _) (max_row_sum_ge0 _) h1 h2; lra.
- have h1 : max_column_sum (outer e ones) <= 1.
    by apply: max_column_sum_outer => [|k]; rewrite ?/ones ?Rabs_R1; lra.
  have h2 : max_row_sum (outer e ones) <= d.
    apply: max_row_sum_outer; first by lra.
    by right; rewrite /d -[RHS]Rmult_1_r -sum_const; apply: eq_bigr => k _; rewrite /ones Rabs_R1.
  have := Rmult_le_compat _ _ _ _ (max_column_sum_ge0 _) (max_row_sum_ge0 _) h1 h2; lra.
Qed.

Lemma wide_column : max_column_sum (scale 1 (outer e e)) <= 1.
Proof.
have -> : scale 1 (outer e e) = outer e e by apply: matrix_eq => i j; rewrite /scale; ring.
by apply: max_column_sum_outer => [|k]; [lra | rewrite abs_e; exact: e_le1].
Qed.

Lemma wide_beta h : max_column_sum (WQK (wide_head h)) * composite (WVO (wide_head h)) <= sqrt d.
Proof.
rewrite wide_WQK wide_WVO; have h1 := wide_column; have h2 := wide_composite h.
have := Rmult_le_compat _ _ _ _ (max_column_sum_ge0 _) (composite_ge0 _) h1 h2; lra.
Qed.

(** ** The input *)
Lemma abs_pair a y : 2 * Rabs a <= Rabs (a - y) + Rabs (- a - y).
Proof.
have := Rabs_triang (a - y) (- (- a - y)); rewrite Rabs_Ropp.
have -> : a - y + - (- a - y) = 2 * a by ring.
by rewrite Rabs_mult (Rabs_pos_eq 2); lra.
Qed.

(** Two tokens [a] and [- a]: for every center the largest column and row are at least these. *)
Lemma opposite_column (a y : K -> R) (Y : bool -> K -> R) k :
  (forall b k, Y b k = two (a k) (- a k) b) -> 2 * Rabs (a k)
    <= max_column_sum (sub Y (constant_rows y)).
Proof.
move=> hY; apply: Rle_trans (column_sum_le _ k).
by rewrite big_bool /sub /constant_rows !hY /=; exact: abs_pair.
Qed.

Lemma opposite_row (a y : K -> R) (Y : bool -> K -> R) :
  (forall b k, Y b k = two (a k) (- a k) b) ->
  \sum_k Rabs (a k) <= max_row_sum (sub Y (constant_rows y)).
Proof.
move=> hY; have h1 := row_sum_le (sub Y (constant_rows y)) true.
have h2 := row_sum_le (sub Y (constant_rows y)) false.
have h3 : 2 * (\sum_k Rabs (a k))
  <= \sum_k Rabs (sub Y (constant_rows y) true k) + \sum_k Rabs (sub Y (constant_rows y) false k).
  rewrite -sumZl -sumD; apply: sum_le => k _; rewrite /sub /constant_rows !hY /=.
  exact: abs_pair.
by lra.
Qed.

Lemma X_rows b k : X b k = two (/ 2 * e k) (- (/ 2 * e k)) b.
Proof. by rewrite /X /opposite /vscale; case: b => /=; field. Qed.

Lemma sub_0 (Y : bool -> K -> R) : sub Y (constant_rows (fun _ => 0)) = Y.
Proof. by apply: matrix_eq => b k; rewrite /sub /constant_rows; ring. Qed.

Lemma abs_half k : Rabs (/ 2 * e k) = / 2 * e k.
Proof. by rewrite Rabs_mult abs_e Rabs_pos_eq; lra. Qed.

Lemma X_composite : composite X * composite X <= / 2.
Proof.
rewrite composite_sq.
have h1 : max_column_sum X <= 1.
  apply: max_lub => [|k]; first by lra.
  by rewrite big_bool !X_rows /= Rabs_Ropp abs_half; have := e_le1 k; lra.
have h2 : max_row_sum X <= / 2.
  apply: max_lub => [|b]; first by lra.
  right; transitivity (/ 2 * (\sum_k e k)); last by rewrite sum_e; ring.
  rewrite -sumZl; apply: eq_bigr => k _; rewrite X_rows.
  by case: b; rewrite /= ?Rabs_Ropp abs_half.
have := Rmult_le_compat _ _ _ _ (max_column_sum_ge0 _) (max_row_sum_ge0 _) h1 h2; lra.
Qed.

Lemma X_center : minimizing_center X (fun _ => 0).
Proof.
move=> y; rewrite sub_0; apply: square_le; first exact: composite_ge0.
apply: Rle_trans X_composite _; rewrite composite_sq.
have h1 := opposite_column y k0 X_rows; have h2 := opposite_row y X_rows.
rewrite abs_half e_k0 in h1.
have e2 : \sum_k Rabs (/ 2 * e k) = / 2.
  transitivity (/ 2 * (\sum_k e k)); last by rewrite sum_e; ring.
  by rewrite -sumZl; apply: eq_bigr => k _; exact: abs_half.
rewrite e2 in h2.
have h3 : 0 <= 2 * (/ 2 * 1) by lra. have h4 : 0 <= / 2 by lra.
by have := Rmult_le_compat _ _ _ _ h3 h4 h1 h2; lra.
Qed.

Lemma wide_scores h i j : residual_scores (wide_head h) (sub X (constant_rows (fun _ => 0))) i j
  = two (/ 2) (- / 2) i * two (/ 2) (- / 2) j.
Proof.
rewrite sub_0 /residual_scores root_unit wide_WQK.
rewrite -[mul _ _ i j]/(dot (lin (scale 1 (outer e e)) (X i)) (X j)).
have hX b : X b = vscale (two (/ 2) (- / 2) b) e.
  by apply: functional_extensionality => k; rewrite X_rows /vscale; case: b => /=; ring.
by rewrite lin_scale lin_outer !hX !(dotZl, dotZr) dot_ee; field.
Qed.

Lemma wide_osc h i : osc (residual_scores (wide_head h) (sub X (constant_rows (fun _ => 0))) i)
  <= / 2.
Proof.
apply: osc_lub => [|j l]; first by lra.
by rewrite !wide_scores; case: i; case: j; case: l => /=; lra.
Qed.

Lemma X_osc h i : osc (residual_scores (wide_head h) (sub X (constant_rows (fun _ => 0))) i)
  <= critical.
Proof. by have := wide_osc h i; have := critical_bounds; lra. Qed.

(** [gamma_h = 1 / sqrt 2] here, so both readings of the printed statement allow [gamma = 1]. *)
Lemma wide_gamma h :
  gamma_of (residual_scores (wide_head h) (sub X (constant_rows (fun _ => 0)))) <= 1.
Proof.
rewrite /gamma_of; set E := residual_scores _ _.
have hM : \max_i osc (E i) <= / 2 by apply: max_lub => [|i]; [lra | exact: wide_osc].
have hS : \sum_i osc (E i) <= 1.
  by rewrite big_bool /=; have := wide_osc h true; have := wide_osc h false; rewrite -/E; lra.
have hC : / 2 <= max_column_sum E.
  apply: Rle_trans (column_sum_le _ true); rewrite big_bool /E !wide_scores /=.
  by rewrite !Rabs_mult Rabs_Ropp Rabs_pos_eq; lra.
have hS0 : 0 <= \sum_i osc (E i) by apply: sum_ge0 => i _; exact: osc_ge0.
have hM0 := max_ge0 (fun i => osc (E i)).
have hr : sqrt ((\sum_i osc (E i)) * \max_i osc (E i)) <= 1.
  by rewrite -sqrt_1; apply: sqrt_le_1_alt; nra.
apply: (Rmult_le_reg_r (2 * max_column_sum E)); first by lra.
by rewrite /Rdiv Rmult_assoc Rinv_l ?Rmult_1_r; lra.
Qed.

(** ** The output *)
Lemma wide_rows b k :
  self_attention wide_layer X b k
    = two (/ 2 * tanh (/ 4) * (sqrt d * e k + 1)) (- (/ 2 * tanh (/ 4) * (sqrt d * e k + 1))) b.
Proof.
rewrite self_attention_split.
have -> : layer_bias wide_layer k = 0.
  rewrite /layer_bias /= sum_eq0 => [|h _]; first by ring.
  by rewrite /lin sum_eq0 => [|x _]; [ring | rewrite /=; ring].
have hrate h : rate (wide_head h) * 1 ^ 2 = / 4.
  by rewrite /rate wide_WQK opnorm_outer ?root_unit; [field | lra | exact: he | exact: he].
have head_row h : mul (mul (attention (wide_head h) X) X) (WVO (wide_head h)) b k
  = two (/ 2 * tanh (/ 4)) (- (/ 2 * tanh (/ 4))) b * wide_output h k.
  rewrite -[mul _ _ b k]/(lin (WVO (wide_head h)) (mul (attention (wide_head h) X) X b) k).
  rewrite (opposite_mix 1 b Rle_0_1 he (wide_WQK h)) // hrate wide_WVO lin_outer.
  by rewrite /opposite !dotZl dot_ee /vscale; case: b => /=; field.
by rewrite big_bool /= !head_row /wide_output /vscale /ones; case: b {head_row}; rewrite /=; ring.
Qed.

Lemma wide_left y : / 4 * tanh (/ 4) ^ 2 * (2 * (sqrt d + 1) * (sqrt d + d))
  <= composite (sub (self_attention wide_layer X) (constant_rows y))
     * composite (sub (self_attention wide_layer X) (constant_rows y)).
Proof.
have ht := tanh_gt0 (x := / 4) ltac:(lra); have hs := sqrt_pos d; have hd := d_ge1.
have pos k : 0 <= / 2 * tanh (/ 4) * (sqrt d * e k + 1).
  have h0 := Rabs_pos (e k); rewrite abs_e in h0.
  by apply: Rmult_le_pos; [lra | nra].
rewrite composite_sq; have h1 := opposite_column y k0 wide_rows;
  have h2 := opposite_row y wide_rows.
rewrite Rabs_pos_eq // e_k0 in h1.
have e2 : \sum_k Rabs (/ 2 * tanh (/ 4) * (sqrt d * e k + 1)) = / 2 * tanh (/ 4) * (sqrt d + d).
  have -> : sqrt d + d = \sum_k (sqrt d * e k + 1).
    by rewrite sumD sumZl sum_e sum_const /d; ring.
  by rewrite -sumZl; apply: eq_bigr => k _; rewrite Rabs_pos_eq.
rewrite e2 in h2.
have h3 : 0 <= 2 * (/ 2 * tanh (/ 4) * (sqrt d * 1 + 1)) by nra.
have h4 : 0 <= / 2 * tanh (/ 4) * (sqrt d + d) by apply: Rmult_le_pos; lra.
have := Rmult_le_compat _ _ _ _ h3 h4 h1 h2.
have -> : 2 * (/ 2 * tanh (/ 4) * (sqrt d * 1 + 1)) * (/ 2 * tanh (/ 4) * (sqrt d + d))
  = / 4 * tanh (/ 4) ^ 2 * (2 * (sqrt d + 1) * (sqrt d + d)) by field.
by [].
Qed.

(** Near neighbor: a width of [2^12] is not enough for these tokens, as the center 0 shows. *)
Theorem narrow_obeys : d = 4096 -> printed_bound wide_layer X (fun _ => 0) 1 (sqrt d).
Proof.
move=> hd; exists (fun _ => 0); rewrite !sub_0 card_bool root_unit.
have hsd : sqrt d = 64.
  by rewrite hd (_ : 4096 = 64 * 64); [rewrite sqrt_square; lra | ring].
have ht := tanh_gt0 (x := / 4) ltac:(lra); have ht4 := tanh_le_id (z := / 4) ltac:(lra).
have pos k : 0 <= sqrt d * e k + 1.
  by have h0 := Rabs_pos (e k); rewrite abs_e in h0; rewrite hsd; lra.
have entry b k : Rabs (self_attention wide_layer X b k) <= / 8 * (sqrt d * e k + 1).
  have -> : Rabs (self_attention wide_layer X b k) = / 2 * tanh (/ 4) * (sqrt d * e k + 1).
    have h : 0 <= / 2 * tanh (/ 4) * (sqrt d * e k + 1) by apply: Rmult_le_pos => //; lra.
    by rewrite wide_rows; case: b; rewrite /= ?Rabs_Ropp Rabs_pos_eq.
  by apply: Rmult_le_compat_r => //; lra.
have h1 : max_column_sum (self_attention wide_layer X) <= 2 * (/ 8 * 65).
  apply: max_lub => [|k]; first by lra.
  rewrite big_bool /=; have := entry true k; have := entry false k; rewrite hsd.
  by have := e_le1 k; lra.
have h2 : max_row_sum (self_attention wide_layer X) <= / 8 * 4160.
  apply: max_lub => [|b]; first by lra.
  apply: (@Rle_trans _ (\sum_k (/ 8 * (sqrt d * e k + 1)))); first by apply: sum_le => k _.
  by rewrite sumZl sumD sumZl sum_e sum_const -/d hsd hd; lra.
have hc : composite (self_attention wide_layer X) <= 92.
  apply: square_le; first by lra.
  rewrite composite_sq.
  have := Rmult_le_compat _ _ _ _ (max_column_sum_ge0 _) (max_row_sum_ge0 _) h1 h2; lra.
have hx : 7 / 10 <= composite X.
  apply: square_le; first exact: composite_ge0.
  have g1 := opposite_column (fun _ => 0) k0 X_rows; have g2 := opposite_row (fun _ => 0) X_rows.
  rewrite sub_0 in g1 g2; rewrite abs_half e_k0 in g1.
  have e2 : \sum_k Rabs (/ 2 * e k) = / 2.
    transitivity (/ 2 * (\sum_k e k)); last by rewrite sum_e; ring.
    by rewrite -sumZl; apply: eq_bigr => k _; exact: abs_half.
  rewrite e2 in g2; rewrite composite_sq.
  have g3 : 0 <= 2 * (/ 2 * 1) by lra. have g4 : 0 <= / 2 by lra.
  by have := Rmult_le_compat _ _ _ _ g3 g4 g1 g2; lra.
rewrite hsd; apply: Rle_trans hc _.
have hx3 : (7 / 10) ^ 3 <= composite X ^ 3 by apply: pow_incr; lra.
by move: hx3; rewrite [INR 2]/=; move: (composite X ^ 3) => z; rewrite /=; lra.
Qed.

Lemma wide_violates : d = 1048576 ->
  ~ printed_bound wide_layer X (fun _ => 0) 1 (sqrt d).
Proof.
move=> hd [y hy]; have hl := wide_left y.
have hsd : sqrt d = 1024.
  rewrite hd (_ : 1048576 = 1024 * 1024); last by ring.
  by rewrite sqrt_square; lra.
rewrite sub_0 card_bool root_unit hsd in hy; rewrite hsd hd in hl.
set c := composite (sub _ _) in hy hl; have hc : 0 <= c := composite_ge0 _.
have hx := X_composite; have hx0 := composite_ge0 X; set x := composite X in hy hx hx0.
have ht := tanh_ge_cubic (z := / 4) ltac:(lra).
have h1 : c <= 8192 * (x * (x * x)).
  by move: hy; rewrite /= ; lra.
have h2 : c * c <= 8388608.
  have h3 : 0 <= x * (x * x) by nra.
  have h4 : (x * (x * x)) * (x * (x * x)) <= / 8.
    have -> : (x * (x * x)) * (x * (x * x)) = (x * x) * ((x * x) * (x * x)) by ring.
    have hq : 0 <= x * x by nra.
    move: (x * x) hq hx => z hz hz2; nra.
  have := Rmult_le_compat _ _ _ _ hc hc h1 h1; lra.
have h5 : 47 / 192 <= tanh (/ 4) by move: ht; rewrite /=; lra.
have h6 : (47 / 192) * (47 / 192) <= tanh (/ 4) ^ 2.
  by rewrite /= Rmult_1_r; apply: Rmult_le_compat; lra.
by lra.
Qed.
End Counterexample.

(** ** Claim collapse.multi-head-as-printed: the registered statement is false *)

(** The width [2^20]. *)
Definition wide_features : finType := [finType of 20.-tuple bool].

Lemma wide_features_card : INR #|wide_features| = 1048576.
Proof.
rewrite card_tuple card_bool.
have power n : INR (expn 2 n) = 2 ^ n.
  by elim: n => [|n IH] //; rewrite expnS mult_INR IH.
by rewrite power /=; ring.
Qed.

Theorem multi_head_as_printed :
  (exists (L : layer wide_features unit_finType unit_finType bool_finType)
          (X : bool -> wide_features -> R) (x : wide_features -> R) (beta : R),
     minimizing_center X x /\
     (forall h, max_column_sum (WQK (heads L h)) * composite (WVO (heads L h)) <= beta) /\
     (forall h i, osc (residual_scores (heads L h) (sub X (constant_rows x)) i) <= critical) /\
     (forall h, gamma_of (residual_scores (heads L h) (sub X (constant_rows x))) <= 1) /\
     ~ printed_bound L X x 1 beta) /\
  ~ printed_statement.
Proof.
pose k0 : wide_features := [tuple of nseq 20 true].
have hc := @X_center _ k0; have hb := wide_beta k0; have ho := @X_osc _ k0.
have hg := @wide_gamma _ k0.
have hv := @wide_violates _ k0 wide_features_card.
split; last by move=> h; apply: hv; apply: h => //; left.
by exists (wide_layer k0), (opposite 1 (basis k0)), (fun _ => 0), (sqrt (INR #|wide_features|)).
Qed.

(** Near neighbor of the corrected theorem of CompositeCollapse.v: the number of heads times the
    largest head in place of the root of two sums. *)
Theorem not_largest_head :
  ~ (forall (T K D V H : finType) (L : layer K D V H) (X : T -> K -> R) (x : K -> R),
       (forall h i, osc (residual_scores (heads L h) (sub X (constant_rows x)) i) <= critical) ->
       exists y, composite (sub (self_attention L X) (constant_rows y))
         <= 4 / root_key_width D
            * (INR #|H| * \max_h (max_column_sum (WQK (heads L h)) * composite (WVO (heads L h))))
            * composite (sub X (constant_rows x)) ^ 3).
Proof.
move=> h; have [[L [X [x [beta [_ [hb [ho [_ hv]]]]]]]] _] := multi_head_as_printed.
apply: hv; have [y hy] := h _ _ _ _ _ L X x ho; exists y; apply: Rle_trans hy _.
apply: Rmult_le_compat_r; first by apply: pow_le; exact: composite_ge0.
have h0 : 0 <= beta.
  apply: Rle_trans (hb true).
  by apply: Rmult_le_pos; [exact: max_column_sum_ge0 | exact: composite_ge0].
have hM : \max_h (max_column_sum (WQK (heads L h)) * composite (WVO (heads L h))) <= beta.
  by apply: max_lub.
rewrite card_bool root_unit /Rdiv Rinv_1 !Rmult_1_r [INR 2]/=; lra.
Qed.
