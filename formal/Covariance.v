(** * The covariance of tokens under a row of weights

    Claim training.covariance, its first bound.  For weights [a] that are not negative and add up to
    1, the covariance of the tokens [X] under [a] has an operator norm of at most
    [P * (1 - P) * diam X ^ 2], where [P] is the largest weight, or 1/2 if that is larger.

    Idea.  Along a direction the tokens are numbers within an interval of length [D].  Without a
    large weight their variance is at most [D^2 / 4], as it is smallest around the mean and no number
    is farther than [D / 2] from the middle.  With a weight [p >= 1/2] on one token, the others'
    second moment is at most [D] times their first, and what is left is an inequality of
    polynomials ([heavy_token]). *)
From AttnVerify Require Import Sums Vectors Matrices Softmax Diameter.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Section Covariance.
Variables T K : finType.
Implicit Types (a z : T -> R) (X : T -> K -> R).

(** The mean of numbers, the mean token, and the covariance of the tokens, under the weights [a]. *)
Definition average a z : R := \sum_j (a j * z j).
Definition mean_token a X : K -> R := fun k => average a (fun j => X j k).
Definition covariance a X : K -> K -> R :=
  fun k l => \sum_j (a j * ((X j k - mean_token a X k) * (X j l - mean_token a X l))).

(** The largest weight, or 1/2 if that is larger. *)
Definition largest_weight a : R := Rmax (/ 2) (\max_j a j).

Definition weights a : Prop := (forall j, 0 <= a j) /\ \sum_j a j = 1.

(** ** Numbers *)
Lemma heavy_token p q D t r : q = 1 - p -> 1 / 2 <= p -> 0 <= q -> 0 <= t -> t <= D ->
  0 <= r -> r <= q * D -> p * (t * t) + D * r - (p * t + r) * (p * t + r) <= p * q * (D * D).
Proof.
move=> hq hp hq0 ht0 htD hr0 hrD.
case: (Rle_lt_or_eq_dec 0 D); first by lra.
- move=> hD; apply: (Rmult_le_reg_l D) => //.
  have e : D * (p * q * (D * D)) - D * (p * (t * t) + D * r - (p * t + r) * (p * t + r))
    = (D - t) * ((q * D - r) * (p * D - r)) + t * (r * ((2 * p - 1) * D + r))
      + p * q * (t * ((D - t) * D)) by rewrite hq; ring.
  have h1 : 0 <= (D - t) * ((q * D - r) * (p * D - r)).
    by apply: Rmult_le_pos; [lra | apply: Rmult_le_pos; [lra | nra]].
  have h2 : 0 <= t * (r * ((2 * p - 1) * D + r)).
    by apply: Rmult_le_pos; [lra | apply: Rmult_le_pos; [lra | nra]].
  have h3 : 0 <= p * q * (t * ((D - t) * D)).
    by apply: Rmult_le_pos; [nra | apply: Rmult_le_pos; [lra | nra]].
  by lra.
- move=> hD; have hr : r = 0 by nra.
  have ht : t = 0 by lra.
  by rewrite hr ht -hD; lra.
Qed.

(** Squares around any number exceed those around the mean. *)
Lemma around a z c : weights a ->
  \sum_j (a j * ((z j - c) * (z j - c)))
  = \sum_j (a j * ((z j - average a z) * (z j - average a z)))
    + (average a z - c) * (average a z - c).
Proof.
move=> [_ h1]; set m := average a z.
have e x : \sum_j (a j * ((z j - x) * (z j - x)))
  = \sum_j (a j * (z j * z j)) - 2 * x * m + x * x.
  have -> : \sum_j (a j * ((z j - x) * (z j - x)))
    = \sum_j ((a j * (z j * z j) - 2 * x * (a j * z j)) + x * x * a j).
    by apply: eq_bigr => j _; ring.
  by rewrite sumD sumB !sumZl h1 /m /average; ring.
by rewrite !e; ring.
Qed.

Lemma variance a z D : weights a -> T -> (forall i j, z i - z j <= D) ->
  \sum_j (a j * ((z j - average a z) * (z j - average a z)))
  <= largest_weight a * (1 - largest_weight a) * (D * D).
Proof.
move=> ha i0 hz; have [h0 h1] := ha.
have hD : 0 <= D by have := hz i0 i0; lra.
have [low hlow] := argmax (fun j => - z j) i0.
have [top htop] := argmax a i0.
have hmax : \max_j a j = a top by apply: max_eq.
case: (Rle_dec (a top) (/ 2)) => hp.
- rewrite /largest_weight hmax Rmax_left //.
  have h := around z (z low + D / 2) ha.
  have : \sum_j (a j * ((z j - (z low + D / 2)) * (z j - (z low + D / 2))))
    <= \sum_j (a j * (D * D / 4)).
    apply: sum_le => j _; apply: Rmult_le_compat_l; first exact: h0.
    by move: (hlow j) (hz j low) => hl hh; nra.
  rewrite sumZr h1 h.
  by have := square_ge0 (average a z - (z low + D / 2)); lra.
- rewrite /largest_weight hmax Rmax_right; last by lra.
  set p := a top; set t := fun j => z j - z low.
  have ht0 j : 0 <= t j by rewrite /t; move: (hlow j); lra.
  have htD j : t j <= D by exact: hz.
  set r := \sum_(j | j != top) (a j * t j); set s := \sum_(j | j != top) (a j * (t j * t j)).
  have hq : \sum_(j | j != top) a j = 1 - p by move: h1; rewrite (bigD1 top) //= -/p; lra.
  have hr0 : 0 <= r by apply: sum_ge0 => j _; apply: Rmult_le_pos.
  have hrD : r <= (1 - p) * D.
    by rewrite -hq -sumZr; apply: sum_le => j _; apply: Rmult_le_compat_l.
  have hs : s <= D * r.
    rewrite -sumZl; apply: sum_le => j _.
    have -> : D * (a j * t j) = a j * (D * t j) by ring.
    by apply: Rmult_le_compat_l => //; apply: Rmult_le_compat_r.
  have hp1 : p <= 1.
    by rewrite -h1; apply: (sum_ge_term (F := a)).
  have h := around z (z low) ha.
  have e2 : \sum_j (a j * ((z j - z low) * (z j - z low))) = p * (t top * t top) + s.
    by rewrite (bigD1 top).
  have e1 : average a z - z low = p * t top + r.
    rewrite /average -[z low]Rmult_1_l -h1 -sumZr -sumB (bigD1 top) //= /r /p /t.
    congr (_ + _); first by ring.
    by apply: eq_bigr => j _; ring.
  rewrite e2 e1 in h.
  have hp2 : 1 / 2 <= p by rewrite /p; lra.
  have hv : p * (t top * t top) + D * r - (p * t top + r) * (p * t top + r) <= p * (1 - p) * (D * D).
    by apply: heavy_token => //; lra.
  by lra.
Qed.

(** ** Tokens *)
Lemma weighted_cauchy_schwarz a z w : (forall j, 0 <= a j) ->
  \sum_j (a j * (z j * w j))
  <= sqrt (\sum_j (a j * (z j * z j))) * sqrt (\sum_j (a j * (w j * w j))).
Proof.
move=> h0.
have e x y : \sum_j (a j * (x j * y j))
  = dot (fun j => sqrt (a j) * x j) (fun j => sqrt (a j) * y j).
  by apply: eq_bigr => j _; rewrite -{1}(sqrt_sqrt _ (h0 j)); ring.
by rewrite !e; exact: cauchy_schwarz.
Qed.

Lemma along a X u : weights a -> T ->
  \sum_j (a j * (dot u (vsub (X j) (mean_token a X)) * dot u (vsub (X j) (mean_token a X))))
  <= largest_weight a * (1 - largest_weight a) * (norm u * diam X * (norm u * diam X)).
Proof.
move=> ha i0; have [_ h1] := ha.
have hm : dot u (mean_token a X) = average a (fun j => dot u (X j)).
  rewrite dotC /dot /mean_token /average.
  have -> : \sum_k ((\sum_j (a j * X j k)) * u k) = \sum_k \sum_j (a j * (u k * X j k)).
    by apply: eq_bigr => k _; rewrite -sumZr; apply: eq_bigr => j _; ring.
  by rewrite sum_exchange; apply: eq_bigr => j _; rewrite sumZl.
have -> : \sum_j (a j * (dot u (vsub (X j) (mean_token a X)) * dot u (vsub (X j) (mean_token a X))))
  = \sum_j (a j * ((dot u (X j) - average a (fun j => dot u (X j)))
                   * (dot u (X j) - average a (fun j => dot u (X j))))).
  by apply: eq_bigr => j _; rewrite dotBr hm.
apply: variance => // i j; rewrite -dotBr.
apply: Rle_trans (cauchy_schwarz _ _) _.
by apply: Rmult_le_compat_l; [exact: norm_ge0 | exact: diam_ub].
Qed.

Lemma largest_weight_bounds a : weights a -> T ->
  0 <= largest_weight a * (1 - largest_weight a).
Proof.
move=> [h0 h1] i0.
have hp1 : largest_weight a <= 1.
  apply: Rmax_lub; first by lra.
  by apply: max_lub => [|j]; [lra | rewrite -h1; apply: (sum_ge_term (F := a))].
have := Rmax_l (/ 2) (\max_j a j); rewrite -/(largest_weight a) => hp.
by apply: Rmult_le_pos; lra.
Qed.

(** ** Claim training.covariance, its first bound *)
Theorem covariance_bound a X : weights a -> T ->
  opnorm (covariance a X) <= largest_weight a * (1 - largest_weight a) * (diam X * diam X).
Proof.
move=> ha i0; have [h0 _] := ha; set c := largest_weight a * _.
have hc : 0 <= c := largest_weight_bounds ha i0.
have hd := diam_ge0 X.
apply: opnorm_least => [|u]; first by apply: Rmult_le_pos => //; nra.
set w := fun j => vsub (X j) (mean_token a X).
have e : lin (covariance a X) u = fun l => \sum_j (a j * dot u (w j) * w j l).
  apply: functional_extensionality => l; rewrite /lin /covariance.
  have -> : \sum_k (u k * \sum_j (a j * ((X j k - mean_token a X k) * (X j l - mean_token a X l))))
    = \sum_k \sum_j (a j * (u k * w j k) * w j l).
    by apply: eq_bigr => k _; rewrite -sumZl; apply: eq_bigr => j _; rewrite /w /vsub; ring.
  rewrite sum_exchange; apply: eq_bigr => j _.
  by rewrite sumZr; congr (_ * _); rewrite sumZl.
rewrite e; set v := fun l => _.
have hu := norm_ge0 u; have hv := norm_ge0 v.
apply: norm_dual; first by apply: Rmult_le_pos => //; apply: Rmult_le_pos => //; nra.
have -> : dot v v = \sum_j (a j * (dot u (w j) * dot v (w j))).
  rewrite {1}/v dot_suml; apply: eq_bigr => j _.
  have -> : dot (fun l => a j * dot u (w j) * w j l) v = a j * dot u (w j) * dot (w j) v.
    exact: (dotZl (a j * dot u (w j)) (w j) v).
  by rewrite (dotC (w j)); ring.
apply: Rle_trans (weighted_cauchy_schwarz _ _ h0) _.
have root x : 0 <= x ->
  sqrt (c * (x * diam X * (x * diam X))) = sqrt c * (x * diam X).
  move=> hx; rewrite sqrt_mult //; last by apply: square_ge0.
  by rewrite sqrt_square //; apply: Rmult_le_pos.
have side y : 0 <= norm y ->
  sqrt (\sum_j (a j * (dot y (w j) * dot y (w j)))) <= sqrt c * (norm y * diam X).
  by move=> hy; rewrite -root //; apply: sqrt_le_1_alt; exact: along.
apply: Rle_trans (Rmult_le_compat _ _ _ _ (sqrt_pos _) (sqrt_pos _) (side u hu) (side v hv)) _.
have -> : sqrt c * (norm u * diam X) * (sqrt c * (norm v * diam X))
  = (sqrt c * sqrt c) * (diam X * diam X) * norm u * norm v by ring.
by rewrite sqrt_sqrt //; lra.
Qed.
End Covariance.

(** ** Near neighbors: two tokens of equal weight, and two of which one is heavy *)
Definition two_weights (p : R) : bool -> R := fun b => if b then p else 1 - p.

Lemma opnorm_two p : 0 <= p -> p <= 1 ->
  p * (1 - p) <= opnorm (covariance (two_weights p) zero_one).
Proof.
move=> hp0 hp1.
have h := opnorm_bound (covariance (two_weights p) zero_one) (fun _ => 1).
have e : covariance (two_weights p) zero_one = fun _ _ => p * (1 - p).
  apply: matrix_eq => k l; rewrite /covariance /mean_token /average !big_bool /= /zero_one /two_weights.
  by ring.
have n1 (c : R) : 0 <= c -> norm (fun _ : unit_finType => c) = c.
  by move=> hc; rewrite /norm /dot (bigD1 tt) //= big_pred0 => [|[]] //; rewrite Rplus_0_r sqrt_square.
have hl : lin (covariance (two_weights p) zero_one) (fun _ => 1) = fun _ => p * (1 - p).
  apply: functional_extensionality => l; rewrite /lin (bigD1 tt) //= big_pred0 => [|[]] //.
  by rewrite e; ring.
rewrite hl n1 in h; last by apply: Rmult_le_pos; lra.
by move: h; rewrite n1; lra.
Qed.

Lemma weights_two p : 0 <= p -> p <= 1 -> weights (two_weights p).
Proof.
move=> h0 h1; split; first by case; rewrite /two_weights; lra.
by rewrite big_bool /= /two_weights; ring.
Qed.

Theorem not_covariance_999 :
  ~ (forall (T K : finType) (a : T -> R) (X : T -> K -> R), weights a -> T ->
       opnorm (covariance a X)
       <= 999 / 1000 * (largest_weight a * (1 - largest_weight a)) * (diam X * diam X)).
Proof.
move=> h; have hw : weights (two_weights (1 / 2)) by apply: weights_two; lra.
have := h _ _ _ zero_one hw true; rewrite diam_zero_one.
have -> : largest_weight (two_weights (1 / 2)) = / 2.
  rewrite /largest_weight Rmax_left //; apply: max_lub => [|b]; first by lra.
  by case: b; rewrite /two_weights; lra.
by have := @opnorm_two (1 / 2); lra.
Qed.

(** (1 - P) / 2 in place of P (1 - P), which is smaller for P > 1/2. *)
Theorem not_half_of_the_rest :
  ~ (forall (T K : finType) (a : T -> R) (X : T -> K -> R), weights a -> T ->
       opnorm (covariance a X) <= (1 - largest_weight a) / 2 * (diam X * diam X)).
Proof.
move=> h; have hw : weights (two_weights (3 / 4)) by apply: weights_two; lra.
have := h _ _ _ zero_one hw true; rewrite diam_zero_one.
have -> : largest_weight (two_weights (3 / 4)) = 3 / 4.
  rewrite /largest_weight Rmax_right; last by apply: Rle_trans (max_ub _ true); rewrite /two_weights; lra.
  apply: (@max_eq _ _ _ true); [lra | by [] | by case; rewrite /two_weights; lra].
by have := @opnorm_two (3 / 4); lra.
Qed.
