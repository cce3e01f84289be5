(** * The sharp theorem over depth, collapse from every input, and the threshold

    Claims collapse.sharp-depth, collapse.global and collapse.threshold.  All three iterate the
      bound
    of one layer.

    - [sharp_depth]: if [beta2] is at least that of every layer, the diameter after [n] layers is at
      most [(beta2 / (4 sqrt d_qk))^((3^n - 1)/2) * (diam X)^(3^n)].
    - [global_collapse]: one head, [|WV| <= 1] and [|WQK| <= q] in every layer.  Then the diameter
      is at most [tanh (c delta_0^2)^n delta_0], which tends to 0; and from a layer on where
      [c delta^2 < 1] the bound of [sharp_depth] applies.
    - [threshold]: one head, [|WV| <= v] with [v > 1].  Below [delta_* = sqrt (artanh (1/v) / c)]
      the diameter tends to 0; two tokens at a distance of exactly [delta_*] can stay there. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter Attention.
From AttnVerify Require Import SharpLayer.
Require Import Psatz Lia PeanoNat FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

(** ** Sequences of numbers *)

(** [(3^n - 1)/2], the exponent of the constant. *)
Definition exponent (n : nat) : nat := Nat.div (Nat.sub (Nat.pow 3 n) 1) 2.

Lemma exponent_step n : exponent (S n) = Nat.add 1 (Nat.mul 3 (exponent n)).
Proof.
rewrite /exponent.
have [k hk] : exists k, Nat.pow 3 n = Nat.add (Nat.mul 2 k) 1.
  elim: n => [|n [k IH]]; first by exists O.
  exists (Nat.add (Nat.mul 3 k) 1); rewrite Nat.pow_succ_r'; lia.
rewrite Nat.pow_succ_r' hk.
have -> : Nat.sub (Nat.add (Nat.mul 2 k) 1) 1 = Nat.mul k 2 by lia.
have -> : Nat.sub (Nat.mul 3 (Nat.add (Nat.mul 2 k) 1)) 1
        = Nat.mul (Nat.add 1 (Nat.mul 3 k)) 2 by lia.
by rewrite !Nat.div_mul.
Qed.

(** Cubing at each of the first [n] steps. *)
Lemma cubic_recursion_upto (c : R) (delta : nat -> R) n :
  0 <= c -> (forall l, 0 <= delta l) -> (forall l, Nat.lt l n -> delta (S l) <= c * delta l ^ 3) ->
  delta n <= c ^ exponent n * delta 0%nat ^ Nat.pow 3 n.
Proof.
move=> hc hd; elim: n => [|n IH] hrec; first by rewrite /exponent /=; lra.
apply: Rle_trans (hrec n (Nat.lt_succ_diag_r n)) _.
rewrite exponent_step Nat.pow_succ_r' (Nat.mul_comm 3 (Nat.pow 3 n)) pow_mult.
rewrite pow_add pow_1 (Nat.mul_comm 3) pow_mult Rmult_assoc.
apply: Rmult_le_compat_l => //; rewrite -Rpow_mult_distr.
by apply: pow_incr; split; [exact: hd | apply: IH => l hl; apply: hrec; lia].
Qed.

Theorem cubic_recursion (c : R) (delta : nat -> R) :
  0 <= c -> (forall l, 0 <= delta l) -> (forall l, delta (S l) <= c * delta l ^ 3) ->
  forall n, delta n <= c ^ exponent n * delta 0%nat ^ Nat.pow 3 n.
Proof. by move=> hc hd hrec n; apply: cubic_recursion_upto. Qed.

(** If a factor that grows with the diameter starts below 1, the diameter falls geometrically. *)
Theorem geometric_recursion (f : R -> R) (delta : nat -> R) :
  (forall l, 0 <= delta l) -> (forall x y, 0 <= x <= y -> 0 <= f x <= f y) ->
  (forall l, delta (S l) <= f (delta l) * delta l) -> f (delta 0%nat) <= 1 ->
  forall n, delta n <= f (delta 0%nat) ^ n * delta 0%nat /\ delta n <= delta 0%nat.
Proof.
move=> hd hf hrec h1; have h0 : 0 <= f (delta 0%nat) by have := hf (delta O) (delta O);
  move: (hd O); lra.
elim=> [|n [IH IH']]; first by rewrite /=; lra.
have [h2 h3] := hf (delta n) (delta 0%nat) (conj (hd n) IH').
have h4 : delta (S n) <= f (delta 0%nat) * delta n.
  by apply: Rle_trans (hrec n) _; apply: Rmult_le_compat_r.
have h5 := hd n.
split; last by nra.
apply: Rle_trans h4 _; rewrite /= Rmult_assoc.
by apply: Rmult_le_compat_l.
Qed.

(** [delta n] tends to 0 for large [n] (a limit as in every textbook). *)
Definition tends_to_zero (delta : nat -> R) :=
  forall eps, 0 < eps -> exists N, forall n, Nat.le N n -> Rabs (delta n) < eps.

Lemma geometric_limit (r d : R) (delta : nat -> R) : 0 <= r < 1 ->
  (forall n, 0 <= delta n <= r ^ n * d) -> tends_to_zero delta.
Proof.
move=> hr h eps he; have hd : 0 <= d by have := h O; rewrite /=; lra.
have hr' : Rabs r < 1 by rewrite Rabs_pos_eq; lra.
have he' : 0 < eps / (d + 1) by apply: Rdiv_lt_0_compat; lra.
have [N hN] := pow_lt_1_zero r hr' _ he'; exists N => n hn.
have [h0 h1] := h n; rewrite Rabs_pos_eq //; have := hN n hn.
have hp : 0 <= r ^ n by apply: pow_le; lra.
rewrite Rabs_pos_eq // => h2; apply: Rle_lt_trans h1 _.
have h3 : r ^ n * (d + 1) < eps.
  have := Rmult_lt_compat_r (d + 1) _ _ ltac:(lra) h2.
  by have -> : eps / (d + 1) * (d + 1) = eps by field; lra.
by lra.
Qed.

(** ** Claim collapse.sharp-depth *)
Section Depth.
Variables T K D V H : finType.
Implicit Types (X : T -> K -> R) (net : nat -> layer K D V H).

Theorem layer_cubic (L : layer K D V H) X :
  diam (self_attention L X) <= beta2 L / (4 * root_key_width D) * diam X ^ 3.
Proof. exact: Rle_trans (sharp_bound L X) (cubic_bound L X). Qed.

Theorem sharp_depth net X (beta : R) : (forall l, beta2 (net l) <= beta) ->
  forall n, diam (states net X n)
    <= (beta / (4 * root_key_width D)) ^ (Nat.div (Nat.sub (Nat.pow 3 n) 1) 2)
       * diam X ^ (Nat.pow 3 n).
Proof.
move=> hb; have hr := inv_root_ge0 D.
have hr4 : 0 <= / (4 * root_key_width D) by rewrite Rinv_mult; lra.
have hb0 : 0 <= beta.
  apply: Rle_trans (hb O); apply: sum_ge0 => h _.
  by apply: Rmult_le_pos; exact: opnorm_ge0.
apply: (@cubic_recursion (beta / (4 * root_key_width D)) (fun l => diam (states net X l))).
- by apply: Rmult_le_pos.
- by move=> l; exact: diam_ge0.
- move=> l; apply: Rle_trans (layer_cubic _ _) _; apply: Rmult_le_compat_r.
    by apply: pow_le; exact: diam_ge0.
  by apply: Rmult_le_compat_r.
Qed.
End Depth.

(** The tokens after [l + m] layers: the last [m] layers, applied to the tokens after [l]. *)
Lemma states_add (T K D V H : finType) (net : nat -> layer K D V H) (X : T -> K -> R) l m :
  states net X (Nat.add l m) = states (fun i => net (Nat.add l i)) (states net X l) m.
Proof.
elim: m => [|m IH]; first by rewrite Nat.add_0_r.
by rewrite Nat.add_succ_r /= IH.
Qed.

(** ** One head *)
Section OneHead.
Variables T K D V : finType.
Implicit Types (X : T -> K -> R) (net : nat -> layer K D V unit_finType).

(** The only head of layer [l]. *)
Definition the_head net l : head K D V := heads (net l) tt.

Lemma one_head_bound net X (q v : R) l :
  opnorm (WVO (the_head net l)) <= v -> opnorm (WQK (the_head net l)) <= q ->
  diam (states net X (S l))
    <= v * tanh (q / (4 * root_key_width D) * diam (states net X l) ^ 2) * diam (states net X l).
Proof.
move=> hv hq; set Y := states net X l; have hY := diam_ge0 Y; have hr := inv_root_ge0 D.
apply: Rle_trans (sharp_bound (net l) Y) _.
rewrite /sharp_factor (bigD1 tt) //= big_pred0 => [|[]] //; rewrite Rplus_0_r.
rewrite [X in X <= _]Rmult_comm -/(the_head net l); apply: Rmult_le_compat_r => //.
have h0 := rate_ge0 (the_head net l); apply: Rmult_le_compat => //; first exact: opnorm_ge0.
  by apply: tanh_ge0; nra.
apply: tanh_le; apply: Rmult_le_compat_r; first by nra.
by apply: Rmult_le_compat_r => //; rewrite Rinv_mult; lra.
Qed.

Lemma one_head_factor (c v x y : R) : 0 <= c -> 0 <= v -> 0 <= x <= y ->
  0 <= v * tanh (c * x ^ 2) <= v * tanh (c * y ^ 2).
Proof.
move=> hc hv hxy; have h1 : 0 <= c * x ^ 2 by nra.
have h2 : c * x ^ 2 <= c * y ^ 2 by apply: Rmult_le_compat_l => //; nra.
have h3 := tanh_ge0 h1; have h4 := tanh_le h2.
by split; [exact: Rmult_le_pos | exact: Rmult_le_compat_l].
Qed.

(** ** Claim collapse.global *)
Theorem global_collapse net X (q : R) :
  (forall l, opnorm (WVO (the_head net l)) <= 1) ->
  (forall l, opnorm (WQK (the_head net l)) <= q) ->
  let c := q / (4 * root_key_width D) in let delta := fun n => diam (states net X n) in
  (forall n, delta n <= tanh (c * delta 0%nat ^ 2) ^ n * delta 0%nat) /\
  tends_to_zero delta /\
  (exists l, c * delta l ^ 2 < 1) /\
  (forall l m, delta (Nat.add l m) <= c ^ exponent m * delta l ^ Nat.pow 3 m) /\
  (forall l m, sqrt c * delta (Nat.add l m) <= (sqrt c * delta l) ^ Nat.pow 3 m).
Proof.
move=> hv hq c delta; have hr := inv_root_ge0 D.
have hq0 : 0 <= q by apply: Rle_trans (hq O); exact: opnorm_ge0.
have hc : 0 <= c by apply: Rmult_le_pos => //; rewrite Rinv_mult; lra.
have hd n : 0 <= delta n by exact: diam_ge0.
have hrec l : delta (S l) <= tanh (c * delta l ^ 2) * delta l.
  by have := one_head_bound X (hv l) (hq l); rewrite Rmult_1_l.
have hmono x y : 0 <= x <= y -> 0 <= tanh (c * x ^ 2) <= tanh (c * y ^ 2).
  by move=> hxy; have := one_head_factor hc Rle_0_1 hxy; rewrite !Rmult_1_l.
have h1 := geometric_recursion hd hmono hrec (Rlt_le _ _ (tanh_lt1 _)).
have h2 : tends_to_zero delta.
  apply: (geometric_limit (r := tanh (c * delta 0%nat ^ 2)) (d := delta 0%nat)).
    split; last exact: tanh_lt1.
    by case: (hmono (delta O) (delta O)); have := hd O; lra.
  by move=> n; split => //; exact: (h1 n).1.
have h4 l m : delta (Nat.add l m) <= c ^ exponent m * delta l ^ Nat.pow 3 m.
  have := @cubic_recursion c (fun i => delta (Nat.add l i)) hc (fun i => hd _) _ m.
  rewrite Nat.add_0_r; apply => i; rewrite Nat.add_succ_r.
  apply: Rle_trans (hrec _) _; have h := hd (Nat.add l i);
    have h' : 0 <= c * delta (Nat.add l i) ^ 2 by nra.
  have -> : c * delta (Nat.add l i) ^ 3 = c * delta (Nat.add l i) ^ 2 * delta (Nat.add l i) by ring.
  by apply: Rmult_le_compat_r => //; exact: tanh_le_id.
split; first by move=> n; exact: (h1 n).1.
do !split => //.
- have he : 0 < / (c + 1) by apply: Rinv_0_lt_compat; lra.
  have [N hN] := h2 (Rmin 1 (/ (c + 1))) ltac:(by apply: Rmin_glb_lt; lra).
  exists N; have := hN N (Nat.le_refl N); rewrite Rabs_pos_eq // => h.
  have ha := Rmin_l 1 (/ (c + 1)); have hb := Rmin_r 1 (/ (c + 1)); have hdN := hd N.
  have h5 : delta N ^ 2 <= / (c + 1) by nra.
  have h6 : (c + 1) * / (c + 1) = 1 by field; lra.
  by have := Rmult_le_compat_l c _ _ hc h5; nra.
- move=> l m.
  have hs := sqrt_pos c; have hss : sqrt c * sqrt c = c := sqrt_sqrt c hc.
  apply: (@Rle_trans _ (sqrt c * (c ^ exponent m * delta l ^ Nat.pow 3 m))).
    by apply: Rmult_le_compat_l.
  right; rewrite Rpow_mult_distr -Rmult_assoc; congr (_ * _).
  have -> : Nat.pow 3 m = S (Nat.mul 2 (exponent m)).
    by elim: m {h4} => [|m IH] //; rewrite exponent_step Nat.pow_succ_r' IH; lia.
  by rewrite -tech_pow_Rmult pow_mult /= Rmult_1_r hss.
Qed.

(** ** Claim collapse.threshold, below the threshold *)
Definition threshold_distance (q v : R) : R :=
  sqrt (4 * root_key_width D * artanh (/ v) / q).

Theorem below_threshold net X (q v : R) : 1 < v -> 0 < q ->
  (forall l, opnorm (WVO (the_head net l)) <= v) ->
  (forall l, opnorm (WQK (the_head net l)) <= q) ->
  diam X < threshold_distance q v ->
  let c := q / (4 * root_key_width D) in
  v * tanh (c * diam X ^ 2) < 1 /\
  (forall n, diam (states net X n) <= (v * tanh (c * diam X ^ 2)) ^ n * diam X) /\
  tends_to_zero (fun n => diam (states net X n)).
Proof.
move=> hv hq hV hQ hX c; have hr := inv_root_ge0 D; have hX0 := diam_ge0 X.
have hc : 0 <= c by apply: Rmult_le_pos; [lra | rewrite Rinv_mult; lra].
have hv1 : 0 < / v < 1.
  split; first by apply: Rinv_0_lt_compat; lra.
  by rewrite -Rinv_1; apply: Rinv_lt_contravar; lra.
have ha := artanh_gt0 hv1.
have hbase : v * tanh (c * diam X ^ 2) < 1.
  suff h : tanh (c * diam X ^ 2) < / v.
    by have := Rmult_lt_compat_l v _ _ ltac:(lra) h; rewrite Rinv_r; lra.
  rewrite -[X in _ < X](tanh_artanh (y := / v)); last by lra.
  apply: tanh_increasing.
  have hs0 : 0 <= 4 * root_key_width D * artanh (/ v) / q.
    apply: Rmult_le_pos; last by apply: Rlt_le; exact: Rinv_0_lt_compat.
    by have := root_ge0 D; nra.
  have h2 : diam X ^ 2 < 4 * root_key_width D * artanh (/ v) / q.
    rewrite -(sqrt_sqrt _ hs0) /= Rmult_1_r -/(threshold_distance q v).
    by apply: Rmult_le_0_lt_compat.
  case: (Req_dec (root_key_width D) 0) => hz.
    by rewrite hz /Rdiv in h2; have := square_ge0 (diam X); lra.
  have h3 : 0 < c.
    by apply: Rdiv_lt_0_compat => //; have := root_ge0 D; lra.
  have := Rmult_lt_compat_l c _ _ h3 h2.
  have -> : c * (4 * root_key_width D * artanh (/ v) / q) = artanh (/ v) by rewrite /c; field; lra.
  by [].
have hg := geometric_recursion (f := fun x => v * tanh (c * x ^ 2))
  (delta := fun n => diam (states net X n)) (fun n => diam_ge0 _)
  (fun x y hxy => one_head_factor hc (Rlt_le _ _ (Rlt_trans _ _ _ Rlt_0_1 hv)) hxy)
  (fun l => one_head_bound X (hV l) (hQ l)) (Rlt_le _ _ hbase).
do !split => //; first by move=> n; exact: (hg n).1.
apply: (geometric_limit (r := v * tanh (c * diam X ^ 2)) (d := diam X)).
  by split => //; apply: Rmult_le_pos; [lra | apply: tanh_ge0; nra].
by move=> n; split; [exact: diam_ge0 | exact: (hg n).1].
Qed.
End OneHead.
