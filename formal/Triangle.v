(** * Absolute collapse is not relative collapse

    Claim collapse.absolute-not-relative.  Three tokens are the corners of an equilateral triangle
    with the origin as its center;
      one head, [WQK = q I] with [q > 0], [WV WO = I], no biases.  Every
    layer multiplies its input by

      [s a = (exp a - exp (- a/2)) / (exp a + 2 exp (- a/2)) < 1],  [a = q |x_1|^2 / sqrt d_qk].

    So the diameter tends to 0, in the end doubly exponentially, while the tokens less their mean
    are all of the output at every depth, in every norm.

    The inner products of the corners are [side^2/3] and [- side^2/6] ([corner_products]), so a row
    of attention gives one weight to its own token and equal weights to the two others, whose sum is
    the negative of the own token. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter Attention.
From AttnVerify Require Import SharpLayer SharpDepth Threshold Composite Skip.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Definition triangle_factor (a : R) : R := (exp a - exp (- a / 2)) / (exp a + 2 * exp (- a / 2)).

Lemma triangle_factor_bounds a : 0 < a -> 0 < triangle_factor a < 1.
Proof.
move=> ha; rewrite /triangle_factor; have h1 := exp_pos a; have h2 := exp_pos (- a / 2).
have h3 : exp (- a / 2) < exp a by apply: exp_increasing; lra.
split; first by apply: Rdiv_lt_0_compat; lra.
apply: (Rmult_lt_reg_r (exp a + 2 * exp (- a / 2))); first by lra.
by rewrite /Rdiv Rmult_assoc Rinv_l; lra.
Qed.

(** An equilateral triangle with its center at the origin. *)
Definition centered_triangle (K : finType) (X : 'I_3 -> K -> R) (side : R) :=
  0 < side /\ (forall k, \sum_i X i k = 0) /\
  (forall i j, i != j -> norm (vsub (X i) (X j)) = side).

Section Geometry.
Variables (K : finType) (X : 'I_3 -> K -> R) (side : R).
Hypothesis hX : centered_triangle X side.

Lemma corner_products i j :
  dot (X i) (X j) = if j == i then side ^ 2 / 3 else - (side ^ 2 / 3) / 2.
Proof.
have [_ [h0 hs]] := hX.
pose o0 : 'I_3 := ord0; pose o1 : 'I_3 := lift ord0 ord0;
  pose o2 : 'I_3 := lift ord0 (lift ord0 ord0).
have z m : dot (X o0) (X m) + dot (X o1) (X m) + dot (X o2) (X m) = 0.
  have -> : dot (X o0) (X m) + dot (X o1) (X m) + dot (X o2) (X m) = \sum_i dot (X i) (X m).
    by rewrite !big_ord_recl big_ord0 /o0 /o1 /o2; ring.
  by rewrite -dot_suml; apply: sum_eq0 => k _; rewrite h0; ring.
have g u v : u != v -> dot (X u) (X u) + dot (X v) (X v) - 2 * dot (X u) (X v) = side ^ 2.
  by move=> huv; rewrite -(hs u v huv) /= Rmult_1_r norm_sq dotBl !dotBr (dotC (X v) (X u)); ring.
have g01 := g o0 o1 isT; have g02 := g o0 o2 isT; have g12 := g o1 o2 isT.
have z0 := z o0; have z1 := z o1; have z2 := z o2.
rewrite (dotC (X o1) (X o0)) (dotC (X o2) (X o0)) in z0.
rewrite (dotC (X o2) (X o1)) in z1.
have cases (m : 'I_3) : m = o0 \/ m = o1 \/ m = o2.
  by case: m => -[|[|[|m]]] // hm; [left | right; left | right; right]; apply: val_inj.
case: (cases i) => [|[|]] ->; case: (cases j) => [|[|]] -> /=;
  rewrite ?(dotC (X o1) (X o0)) ?(dotC (X o2) (X o0)) ?(dotC (X o2) (X o1)); lra.
Qed.

Lemma corner_norm i : norm (X i) ^ 2 = side ^ 2 / 3.
Proof. by rewrite /= Rmult_1_r norm_sq corner_products eqxx. Qed.

Lemma triangle_diam : diam X = side.
Proof.
have [h [h0 hs]] := hX; apply: Rle_antisym.
  apply: diam_lub => [|i j]; first by lra.
  case: (eqVneq i j) => [->|hij]; first by rewrite vsub_refl norm_0; lra.
  by rewrite hs //; lra.
by rewrite -(hs ord0 (lift ord0 ord0) isT); exact: diam_ub.
Qed.

Lemma triangle_mean : mean_residual X = X.
Proof.
have [_ [h0 _]] := hX; apply: matrix_eq => i k.
by rewrite /mean_residual /sub /constant_rows /mean_row h0 /Rdiv; ring.
Qed.

Lemma triangle_neq0 : X <> zero.
Proof.
have [h _] := hX; move=> e; have := corner_norm ord0; rewrite e /= Rmult_1_r norm_0.
by have := Rmult_lt_0_compat _ _ h h; lra.
Qed.

Lemma triangle_scale c : 0 < c -> centered_triangle (scale c X) (c * side).
Proof.
have [h [h0 hs]] := hX; move=> hc; split; first exact: Rmult_lt_0_compat.
split=> [k|i j hij]; first by rewrite /scale sumZl h0; ring.
have -> : vsub (scale c X i) (scale c X j) = vscale c (vsub (X i) (X j)).
  by apply: functional_extensionality => k; rewrite /vsub /vscale /scale; ring.
by rewrite normZ hs // Rabs_pos_eq; lra.
Qed.
End Geometry.

(** ** One layer *)
Section Layer.
Variables (K D V : finType).
Implicit Types (L : layer K D V unit_finType) (X : 'I_3 -> K -> R).

(** [WQK = q I], [WV WO = I], no biases. *)
Definition identity_layer (q : R) L :=
  WQK (heads L tt) = scale q ident /\ WVO (heads L tt) = ident /\
  (forall x, bQ (heads L tt) x = 0) /\ (forall x, bK (heads L tt) x = 0) /\
  (forall x, bV (heads L tt) x = 0) /\ (forall k, bO L k = 0).

Lemma identity_root q L X side : 0 < q -> centered_triangle X side -> identity_layer q L ->
  0 < root_key_width D.
Proof.
move=> hq hX [hQ _]; case: (pickP (fun _ : D => true)) => [d _|hD]; first exact: root_gt0.
have hk : exists k : K, True.
  case: (pickP (fun _ : K => true)) => [k _|hK]; first by exists k.
  by case: (triangle_neq0 hX); apply: matrix_eq => i k; have := hK k.
have [k _] := hk; have := f_equal (fun A => A k k) hQ.
rewrite /WQK /mul big_pred0 /scale /ident ?eqxx => [|d]; [lra | exact: hD].
Qed.

Theorem triangle_layer q L X side : 0 < q -> centered_triangle X side -> identity_layer q L ->
  self_attention L X
    = scale (triangle_factor (q * norm (X ord0) ^ 2 / root_key_width D)) X.
Proof.
move=> hq hX [hQ [hV [hbQ [hbK [hbV hbO]]]]]; have hXs := corner_products hX.
set a := q * norm (X ord0) ^ 2 / root_key_width D.
have ha : a = q * (side ^ 2 / 3) / root_key_width D by rewrite /a (corner_norm hX).
have [_ [h0 _]] := hX.
apply: matrix_eq => i k; rewrite self_attention_split sum_unit.
have -> : layer_bias L k = 0.
  by rewrite /layer_bias sum_unit hbO /lin sum_eq0 => [|v _]; [ring | rewrite hbV; ring].
rewrite hV mul1r qk_reduction hQ.
have -> : lin (tr (WK (heads L tt))) (bQ (heads L tt)) = fun _ => 0.
  by apply: functional_extensionality => m; apply: sum_eq0 => x _; rewrite hbQ; ring.
pose z j := mul (affine X (scale q ident) (fun _ => 0)) (tr X) i j / root_key_width D.
rewrite -[mul _ X i k]/(\sum_j (softmax z j * X j k)).
have hz j : z j = if j == i then a else - a / 2.
  have -> : z j = q * dot (X i) (X j) / root_key_width D.
    rewrite /z; congr (_ / _).
    rewrite -[LHS]/(\sum_m ((mul X (scale q ident) i m + 0) * X j m)) mulZr mul1r -sumZl.
    by apply: eq_bigr => m _; rewrite /scale; ring.
  by rewrite hXs ha; case: ifP => _; rewrite /Rdiv; ring.
have e j : exp (z j) = (if j == i then exp a - exp (- a / 2) else 0) + exp (- a / 2).
  by rewrite hz; case: ifP => _; ring.
have hN : \sum_j exp (z j) = exp a + 2 * exp (- a / 2).
  under eq_bigr => j _ do rewrite e.
  by rewrite sumD sum_delta sum_const card_ord /=; ring.
rewrite /softmax hN.
have -> : \sum_j (exp (z j) / (exp a + 2 * exp (- a / 2)) * X j k)
  = (\sum_j (if j == i then (exp a - exp (- a / 2)) * X j k else 0) + exp (- a / 2)
    * (\sum_j X j k))
    / (exp a + 2 * exp (- a / 2)).
  rewrite -sumZl -sumD /Rdiv -sumZr; apply: eq_bigr => j _; rewrite e /Rdiv.
  by case: ifP => _; ring.
by rewrite h0 (sum_delta i (fun j => (exp a - exp (- a / 2)) * X j k)) /scale /triangle_factor
  /Rdiv; ring.
Qed.
End Layer.

(** ** Claim collapse.absolute-not-relative *)
Theorem absolute_not_relative (K D V : finType) (net : nat -> layer K D V unit_finType)
    (X : 'I_3 -> K -> R) (q side : R) :
  0 < q -> centered_triangle X side -> (forall l, identity_layer q (net l)) ->
  let S := states net X in
  let a := fun l => q * norm (S l ord0) ^ 2 / root_key_width D in
  let c := q / (4 * root_key_width D) in
  (forall l, S (Nat.succ l) = scale (triangle_factor (a l)) (S l) /\
     0 < triangle_factor (a l) < 1 /\ a (Nat.succ l) = triangle_factor (a l) ^ 2 * a l) /\
  tends_to_zero (fun l => diam (S l)) /\
  (exists l, c * diam (S l) ^ 2 < 1) /\
  (forall l m, sqrt c * diam (S (Nat.add l m)) <= (sqrt c * diam (S l)) ^ Nat.pow 3 m) /\
  (forall l, mean_residual (S l) = S l /\ S l <> zero /\
     forall N : ('I_3 -> K -> R) -> R, (forall A, N A = 0 -> A = zero) ->
       N (mean_residual (S l)) / N (S l) = 1).
Proof.
move=> hq hX hL S a c; have hr := identity_root hq hX (hL O).
have pos (Y : 'I_3 -> K -> R) s' : centered_triangle Y s'
  -> 0 < q * norm (Y ord0) ^ 2 / root_key_width D.
  move=> hY; rewrite (corner_norm hY); have [h _] := hY.
  by apply: Rdiv_lt_0_compat => //; apply: Rmult_lt_0_compat => //; nra.
have tri l : exists s', centered_triangle (S l) s'.
  elim: l => [|l [s' IH]]; first by exists side.
  rewrite /S /= (triangle_layer hq IH (hL l)); eexists; apply: (triangle_scale IH).
  by case: (triangle_factor_bounds (pos _ _ IH)).
have hk : exists k : K, True.
  case: (pickP (fun _ : K => true)) => [k _|hK]; first by exists k.
  by case: (triangle_neq0 hX); apply: matrix_eq => i k; have := hK k.
have [k0 _] := hk.
have hV l : opnorm (WVO (the_head net l)) <= 1.
  have [_ [e _]] := hL l; rewrite /the_head e.
  have -> : (ident : K -> K -> R) = scale 1 ident by apply: matrix_eq => i j; rewrite /scale; ring.
  by rewrite opnorm_scale_ident // Rabs_R1; lra.
have hQ l : opnorm (WQK (the_head net l)) <= q.
  have [e _] := hL l; rewrite /the_head e opnorm_scale_ident // Rabs_pos_eq; lra.
have [_ [g2 [g3 [_ g5]]]] := global_collapse X hV hQ.
split; last split; last split; last split=> //.
- move=> l; have [s' hl] := tri l; have e := triangle_layer hq hl (hL l).
  have hb := triangle_factor_bounds (pos _ _ hl).
  have eS : S (Nat.succ l) = scale (triangle_factor (a l)) (S l) by rewrite /S /= e.
  split=> //; split=> //; rewrite {1}/a eS.
  have -> : scale (triangle_factor (a l)) (S l) ord0 = vscale (triangle_factor (a l)) (S l ord0)
    by [].
  by rewrite normZ Rabs_pos_eq; [rewrite Rpow_mult_distr /a /Rdiv; ring | rewrite /a; lra].
- exact: g2.
- exact: g3.
- move=> l; have [s' hl] := tri l; split; first exact: triangle_mean hl.
  split; first exact: triangle_neq0 hl.
  move=> N hN; rewrite (triangle_mean hl); apply: Rinv_r => h.
  exact: triangle_neq0 hl (hN _ h).
Qed.

(** ** An example, and near neighbors *)
Section Example.
Let token : 'I_3 -> 'I_3 -> R := fun i k => (if k == i then 1 else 0) - / 3.
Let zeros (I : finType) : I -> R := fun _ => 0.
Let head3 : head [finType of 'I_3] [finType of 'I_3] [finType of 'I_3] :=
  Head ident (fun _ => 0) ident (fun _ => 0) ident (fun _ => 0) ident.
Let layer3 : layer [finType of 'I_3] [finType of 'I_3] [finType of 'I_3] unit_finType :=
  Layer (fun _ => head3) (fun _ => 0).

Lemma example_triangle : centered_triangle token (sqrt 2).
Proof.
split; first by apply: sqrt_lt_R0; lra.
split=> [k|i j hij].
  rewrite /token sumB sum_const card_ord /=.
  have -> : \sum_(i : 'I_3) (if k == i then 1 else 0) = 1.
    rewrite -[RHS](sum_delta k (fun _ => 1)); apply: eq_bigr => i _; by rewrite eq_sym.
  by field.
rewrite /norm; congr sqrt; rewrite /dot.
have -> : \sum_k (vsub (token i) (token j) k * vsub (token i) (token j) k)
  = \sum_k ((if k == i then 1 else 0) + (if k == j then 1 else 0)).
  apply: eq_bigr => k _; rewrite /vsub /token.
  by case: eqP => [->|_]; [rewrite (negbTE hij); ring | case: ifP => _; ring].
by rewrite sumD (sum_delta i (fun _ => 1)) (sum_delta j (fun _ => 1)); ring.
Qed.

Lemma example_layer : identity_layer 1 layer3.
Proof.
split; last by split=> //; exact: mul1r.
rewrite /WQK /=; have -> : tr ident = (ident : 'I_3 -> 'I_3 -> R).
  by apply: matrix_eq => i j; rewrite /tr /ident eq_sym.
by rewrite mul1r; apply: matrix_eq => i j; rewrite /scale; ring.
Qed.

(** Relative collapse fails: the sum of the absolute entries of the residual does not become small
    beside that of the tokens. *)
Theorem not_relative_collapse :
  ~ (forall (K D V : finType) (net : nat -> layer K D V unit_finType) (X : 'I_3 -> K -> R),
       (forall l, opnorm (WVO (the_head net l)) <= 1) ->
       (exists q, forall l, opnorm (WQK (the_head net l)) <= q) ->
       tends_to_zero (fun l => (\sum_i \sum_k Rabs (mean_residual (states net X l) i k))
                               / (\sum_i \sum_k Rabs (states net X l i k)))).
Proof.
move=> h; pose net (l : nat) := layer3; have h01 := Rlt_0_1.
pose N (A : 'I_3 -> 'I_3 -> R) := \sum_i \sum_j Rabs (A i j).
have hN A : N A = 0 -> A = zero.
  move=> hA; apply: matrix_eq => i j.
  have h1 : Rabs (A i j) <= 0.
    rewrite -hA; apply: Rle_trans (sum_ge_term (F := fun i => \sum_j Rabs (A i j)) i _).
      exact: (sum_ge_term (F := fun j => Rabs (A i j)) j (fun j => Rabs_pos _)).
    by move=> i'; apply: sum_ge0 => j' _; exact: Rabs_pos.
  have h2 := Rabs_pos (A i j); rewrite /zero.
  by case: (Req_dec (A i j) 0) => // /Rabs_no_R0; lra.
have [_ [_ [_ [_ h5]]]] := absolute_not_relative h01 example_triangle (fun l : nat
  => example_layer).
have eI : (ident : 'I_3 -> 'I_3 -> R) = scale 1 ident by apply: matrix_eq => i j; rewrite /scale;
  ring.
have hV l : opnorm (WVO (the_head net l)) <= 1.
  have [_ [e _]] := example_layer; rewrite /the_head /net e eI opnorm_scale_ident; last exact: ord0.
  by rewrite Rabs_R1; lra.
have hQ : exists q, forall l, opnorm (WQK (the_head net l)) <= q.
  by exists (opnorm (WQK head3)) => l; exact: Rle_refl.
have [M /(_ M (le_n M))] := h _ _ _ net token hV hQ 1 h01.
have [_ [_ e]] := h5 M; rewrite -/(N (mean_residual _)) -/(N (states _ _ _)) e // Rabs_R1; lra.
Qed.

(** The weights [exp (- a)] off the diagonal do not fit. *)
Theorem not_factor_with_exp_minus_a :
  ~ (forall (K D V : finType) (L : layer K D V unit_finType) (X : 'I_3 -> K -> R) (q side : R),
       0 < q -> centered_triangle X side -> identity_layer q L ->
       let a := q * norm (X ord0) ^ 2 / root_key_width D in
       self_attention L X = scale ((exp a - exp (- a)) / (exp a + 2 * exp (- a))) X).
Proof.
move=> h; have h01 := Rlt_0_1; have hX := example_triangle.
have := h _ _ _ layer3 token 1 (sqrt 2) h01 hX example_layer;
  rewrite (triangle_layer h01 hX example_layer).
set a := 1 * norm (token ord0) ^ 2 / root_key_width [finType of 'I_3].
have ha : 0 < a.
  rewrite /a (corner_norm hX); apply: Rdiv_lt_0_compat;
    last exact: identity_root h01 hX example_layer.
  by rewrite /= Rmult_1_r sqrt_sqrt; lra.
move=> /(f_equal (fun A => A ord0 ord0)); rewrite /scale /token eqxx /triangle_factor.
have h1 : exp (- a) < exp (- a / 2) by apply: exp_increasing; lra.
move: (exp_pos a) (exp_pos (- a / 2)) (exp_pos (- a)) h1.
move: (exp a) (exp (- a / 2)) (exp (- a)) => x y z hx hy hz hzy e.
have e2 : (x - y) / (x + 2 * y) = (x - z) / (x + 2 * z) by lra.
have e3 : (x - y) * (x + 2 * z) = (x - z) * (x + 2 * y).
  have -> : (x - y) * (x + 2 * z) = (x - y) / (x + 2 * y) * (x + 2 * y) * (x + 2 * z) by field; lra.
  by rewrite e2; field; lra.
by nra.
Qed.
End Example.
