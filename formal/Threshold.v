(** * The threshold below which one head collapses

    Claim collapse.threshold.  One head with [|WV| <= v], [v > 1], and [|WQK| <= q], [q > 0], in
    every layer; [c = q / (4 sqrt d_qk)].  Tokens whose diameter is below
    [delta_* = sqrt (4 sqrt d_qk artanh (1/v) / q)] collapse (SharpDepth.v).  Here: two tokens at a
    distance of exactly [delta_*] that stay where they are in every layer; so the threshold cannot
    be raised.  Also here: false neighbors of the three theorems over depth. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter Attention.
From AttnVerify Require Import SharpLayer SharpDepth.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Section Staying.
Variables K D V : finType.
Variables (d : D) (x : V) (e : K -> R).
Hypothesis he : norm e = 1.

(** One head with [WQK = q e e^T], [WV WO = v e e^T] and no biases. *)
Definition rank_one_layer (q v : R) : layer K D V unit_finType :=
  Layer (fun _ => rank_one_head d x q v e e) (fun _ => 0).

(** Two opposite tokens stay opposite; their distance is multiplied by [v tanh (c delta^2)]. *)
Lemma rank_one_step q v delta : 0 <= q ->
  self_attention (rank_one_layer q v) (opposite delta e)
    = opposite (v * tanh (q / (4 * root_key_width D) * delta ^ 2) * delta) e.
Proof.
move=> hq; have hne : dot e e = 1 by rewrite -norm_sq he; ring.
apply: matrix_eq => b k; rewrite self_attention_split (bigD1 tt) //= big_pred0 => [|[]] //.
have -> : layer_bias (rank_one_layer q v) k = 0.
  rewrite /layer_bias (bigD1 tt) //= big_pred0 => [|[]] //.
  by rewrite /lin sum_eq0 => [|i _]; [ring | rewrite /=; ring].
rewrite -[mul (mul _ _) _ b k]/(lin (WVO (rank_one_head d x q v e e))
  (mul (attention (rank_one_head d x q v e e) (opposite delta e)) (opposite delta e) b) k).
rewrite (opposite_mix delta b hq he (rank_one_WQK d x q v e e)) //.
rewrite rank_one_WVO lin_scale lin_outer /rate rank_one_WQK opnorm_outer //.
rewrite /opposite !(dotZl, dotZr) hne /vscale; case: b => /=; field.
Qed.

Theorem tokens_that_stay q v : 0 < q -> 1 < v ->
  exists net : nat -> layer K D V unit_finType,
    (forall l, opnorm (WVO (the_head net l)) = v /\ opnorm (WQK (the_head net l)) = q) /\
    let X := opposite (threshold_distance D q v) e in
    diam X = threshold_distance D q v /\ forall n, states net X n = X.
Proof.
move=> hq hv; exists (fun _ => rank_one_layer q v); split=> [l|X].
  by rewrite /the_head /= rank_one_WVO rank_one_WQK !opnorm_outer //; lra.
split; first by apply: diam_opposite => //; exact: sqrt_pos.
have hr := root_gt0 d.
have hv1 : 0 < / v < 1.
  split; first by apply: Rinv_0_lt_compat; lra.
  by rewrite -Rinv_1; apply: Rinv_lt_contravar; lra.
have ha := artanh_gt0 hv1.
elim=> [|n IH] //=; rewrite IH rank_one_step; last by lra.
have -> : threshold_distance D q v ^ 2 = 4 * root_key_width D * artanh (/ v) / q.
  rewrite /= Rmult_1_r sqrt_sqrt //; apply: Rmult_le_pos; first by nra.
  by apply: Rlt_le; exact: Rinv_0_lt_compat.
have -> : q / (4 * root_key_width D) * (4 * root_key_width D * artanh (/ v) / q) = artanh (/ v).
  by field; lra.
rewrite tanh_artanh; last by lra.
by rewrite Rinv_r ?Rmult_1_l //; lra.
Qed.
End Staying.

(** ** Claim collapse.threshold *)
Theorem threshold :
  (forall (T K D V : finType) (net : nat -> layer K D V unit_finType) (X : T -> K -> R) (q v : R),
     1 < v -> 0 < q ->
     (forall l, opnorm (WVO (the_head net l)) <= v) ->
     (forall l, opnorm (WQK (the_head net l)) <= q) ->
     diam X < sqrt (4 * root_key_width D * artanh (/ v) / q) ->
     let c := q / (4 * root_key_width D) in
     v * tanh (c * diam X ^ 2) < 1 /\
     (forall n, diam (states net X n) <= (v * tanh (c * diam X ^ 2)) ^ n * diam X) /\
     tends_to_zero (fun n => diam (states net X n))) /\
  (forall (K D V : finType) (q v : R), K -> D -> V -> 1 < v -> 0 < q ->
     exists (net : nat -> layer K D V unit_finType) (X : bool -> K -> R),
       (forall l, opnorm (WVO (the_head net l)) = v /\ opnorm (WQK (the_head net l)) = q) /\
       diam X = sqrt (4 * root_key_width D * artanh (/ v) / q) /\ forall n, states net X n = X).
Proof.
split; first by move=> T K D V net X q v hv hq hV hQ hX; exact: below_threshold.
move=> K D V q v k d x hv hq.
have [net [h1 [h2 h3]]] := tokens_that_stay d x (norm_basis k) hq hv.
by exists net, (opposite (threshold_distance D q v) (basis k)).
Qed.

(** ** Near neighbors *)
Local Notation unit := unit_finType.

(** No larger threshold: already 1.0001 [delta_*] is false. *)
Theorem threshold_is_best (factor q v : R) : 1 < factor -> 0 < q -> 1 < v ->
  ~ (forall (net : nat -> layer unit unit unit unit) (X : bool -> unit -> R),
       (forall l, opnorm (WVO (the_head net l)) <= v) ->
       (forall l, opnorm (WQK (the_head net l)) <= q) ->
       diam X < factor * threshold_distance unit q v ->
       tends_to_zero (fun n => diam (states net X n))).
Proof.
move=> hf hq hv h.
have [net [h1 [h2 h3]]] := tokens_that_stay (tt : unit) (tt : unit) (norm_basis (tt : unit)) hq hv.
have hs : 0 < threshold_distance unit q v.
  apply: sqrt_lt_R0; rewrite root_unit; apply: Rdiv_lt_0_compat => //.
  have : 0 < / v < 1.
    split; first by apply: Rinv_0_lt_compat; lra.
    by rewrite -Rinv_1; apply: Rinv_lt_contravar; lra.
  by move/artanh_gt0; lra.
have := h net (opposite (threshold_distance unit q v) (basis tt)).
have hV l : opnorm (WVO (the_head net l)) <= v by case: (h1 l) => ->; lra.
have hQ l : opnorm (WQK (the_head net l)) <= q by case: (h1 l) => _ ->; lra.
move/(_ hV hQ); rewrite h2 => /(_ ltac:(nra)) /(_ _ hs) [N] /(_ N (le_n N)).
by rewrite h3 h2 Rabs_pos_eq; lra.
Qed.

Corollary not_threshold_10001 :
  ~ (forall (net : nat -> layer unit unit unit unit) (X : bool -> unit -> R),
       (forall l, opnorm (WVO (the_head net l)) <= 2) ->
       (forall l, opnorm (WQK (the_head net l)) <= 1) ->
       diam X < 10001 / 10000 * threshold_distance unit 1 2 ->
       tends_to_zero (fun n => diam (states net X n))).
Proof. by apply: threshold_is_best; lra. Qed.

(** The layers of one coordinate and one head, as networks. *)
Lemma unit_layer_beta q v : 0 <= q -> 0 <= v ->
  beta2 (unit_layer q v) / (4 * root_key_width unit) = q * v / 4.
Proof. by move=> hq hv; rewrite unit_layer_beta2 // root_unit; field. Qed.

(** collapse.sharp-depth with the exponent [(3^n + 1)/2]. *)
Theorem not_depth_exponent_plus :
  ~ (forall (net : nat -> layer unit unit unit unit) (X : bool -> unit -> R) (beta : R),
       (forall l, beta2 (net l) <= beta) ->
       forall n, diam (states net X n)
         <= (beta / (4 * root_key_width unit)) ^ (Nat.div (Nat.add (Nat.pow 3 n) 1) 2)
            * diam X ^ (Nat.pow 3 n)).
Proof.
move=> h; have hb := norm_basis (tt : unit); have h01 := Rle_0_1.
have h25 : 0 <= 2 / 5 by lra.
have h3 (l : nat) : beta2 (unit_layer (2 / 5) 1) <= 2 / 5 by rewrite unit_layer_beta2 //; lra.
have := h (fun _ => unit_layer (2 / 5) 1) (opposite 1 (basis tt)) (2 / 5) h3 1%nat.
rewrite /= unit_layer_diam // diam_opposite // root_unit.
by have := tanh_ge_cubic (z := 2 / 5 / 4 * 1 ^ 2) ltac:(lra); rewrite /=; lra.
Qed.

(** collapse.sharp-depth with the diameter to the power [3^n - 1]. *)
Theorem not_depth_power_minus :
  ~ (forall (net : nat -> layer unit unit unit unit) (X : bool -> unit -> R) (beta : R),
       (forall l, beta2 (net l) <= beta) ->
       forall n, diam (states net X n)
         <= (beta / (4 * root_key_width unit)) ^ (Nat.div (Nat.sub (Nat.pow 3 n) 1) 2)
            * diam X ^ (Nat.sub (Nat.pow 3 n) 1)).
Proof.
move=> h; have hb := norm_basis (tt : unit); have h01 := Rle_0_1.
have h32 : 0 <= 3 / 2 by lra.
have h3 (l : nat) : beta2 (unit_layer 1 1) <= 1 by rewrite unit_layer_beta2 //; lra.
have := h (fun _ => unit_layer 1 1) (opposite (3 / 2) (basis tt)) 1 h3 1%nat.
rewrite /= unit_layer_diam // diam_opposite // root_unit.
by have := tanh_ge_cubic (z := 1 / 4 * (3 / 2) ^ 2) ltac:(lra); rewrite /=; lra.
Qed.

(** collapse.global with [c = q / (5 sqrt d_qk)]. *)
Theorem not_global_fifth :
  ~ (forall (net : nat -> layer unit unit unit unit) (X : bool -> unit -> R) (q : R),
       (forall l, opnorm (WVO (the_head net l)) <= 1) ->
       (forall l, opnorm (WQK (the_head net l)) <= q) ->
       forall n, diam (states net X n)
         <= tanh (q / (5 * root_key_width unit) * diam X ^ 2) ^ n * diam X).
Proof.
move=> h; have hb := norm_basis (tt : unit); have h01 := Rle_0_1.
have hV (l : nat) : opnorm (WVO (the_head (fun _ => unit_layer 1 1) l)) <= 1.
  by rewrite /the_head /= rank_one_WVO opnorm_outer //; lra.
have hQ (l : nat) : opnorm (WQK (the_head (fun _ => unit_layer 1 1) l)) <= 1.
  by rewrite /the_head /= rank_one_WQK opnorm_outer //; lra.
have := h (fun _ => unit_layer 1 1) (opposite 1 (basis tt)) 1 hV hQ 1%nat.
rewrite /= root_unit unit_layer_diam // diam_opposite //.
have : tanh (1 / (5 * 1) * 1 ^ 2) < tanh (1 / 4 * 1 ^ 2) by apply: tanh_increasing; lra.
by rewrite /=; lra.
Qed.

(** collapse.global without the hypothesis on the value matrix (one head with [|WV| = 2]). *)
Theorem not_global_without_value_bound :
  ~ (forall (net : nat -> layer unit unit unit unit) (X : bool -> unit -> R) (q : R),
       (forall l, opnorm (WQK (the_head net l)) <= q) ->
       tends_to_zero (fun n => diam (states net X n))).
Proof.
move=> h; have h1 : 0 < 1 by lra.
by apply: (@threshold_is_best 2 1 2); try lra; move=> net X _ hQ _; apply: (h net X 1).
Qed.
