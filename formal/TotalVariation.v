(** * The sharp bound of softmax in total variation

    Claim softmax.total-variation.  If the logits [u] change by [e], the two rows of softmax are at
    most [tanh (osc e / 4)] apart in total variation, whatever [u] and the number of tokens are;
    two tokens with [e = (D, 0)] and [u = (- D/2, 0)] attain this.

    Idea.  The ratio of odds [p i * q j / (p j * q i)] of two rows is at most [exp (osc e)]
    ([softmax_odds]).  For the set of tokens on which one row exceeds the other, of masses [a] and
    [b], this gives [a (1 - b) <= exp D * (1 - a) b], and then [a - b <= tanh (D/4)]
    ([odds_bound]).  The total variation is [a - b].

    Also proved here: a difference of two probability vectors, applied to numbers that differ by at
    most [B], is at most their total variation times [B] ([TV_coupling]). *)
From AttnVerify Require Import Sums Tanh Softmax.
Require Import Psatz.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

(** ** Two numbers with bounded odds ratio *)
Lemma odds_bound a b D : 0 <= D -> 0 <= b -> b <= 1 -> 0 <= a -> a <= 1 ->
  a * (1 - b) <= exp D * ((1 - a) * b) -> a - b <= tanh (D / 4).
Proof.
move=> hD hw0 hw1 hu0 hu1 hodds.
rewrite tanh_exp; have -> : 2 * (D / 4) = D / 2 by field.
set t := exp (D / 2); have ht : 0 < t := exp_pos _.
have ht1 : 1 <= t by rewrite /t; move: (exp_ineq1_le (D / 2)); lra.
have hE : exp D = t * t by rewrite /t -exp_plus; congr exp; field.
rewrite hE in hodds.
set x := sqrt (a * (1 - b)); set y := sqrt ((1 - a) * b).
have hx0 : 0 <= x := sqrt_pos _. have hy0 : 0 <= y := sqrt_pos _.
have hxx : x * x = a * (1 - b) by apply: sqrt_sqrt; nra.
have hyy : y * y = (1 - a) * b by apply: sqrt_sqrt; nra.
have hxty : x <= t * y by apply: square_le; nra.
have hxy1 : x + y <= 1.
  apply: square_le; first by lra.
  have hm : 0 <= a * b by nra.
  have hn : 0 <= (1 - a) * (1 - b) by nra.
  have hz : (x * y) * (x * y) = (a * b) * ((1 - a) * (1 - b)).
    have -> : x * y * (x * y) = (x * x) * (y * y) by ring.
    by rewrite hxx hyy; ring.
  suff hxy : 2 * (x * y) <= a * b + (1 - a) * (1 - b).
    have -> : (x + y) * (x + y) = x * x + y * y + 2 * (x * y) by ring.
    by rewrite hxx hyy; lra.
  apply: square_le; first by lra.
  have -> : 2 * (x * y) * (2 * (x * y)) = 4 * (x * y * (x * y)) by ring.
  rewrite hz; move: (a * b) ((1 - a) * (1 - b)) => m n.
  by have := square_ge0 (m - n); lra.
have huw : a - b = (x - y) * (x + y) by nra.
have -> : a - b = ((a - b) * (t + 1)) / (t + 1) by field; lra.
apply: Rmult_le_compat_r; first by apply: Rlt_le; apply: Rinv_0_lt_compat; lra.
rewrite huw.
have h1 : (x - y) * (t + 1) <= (t - 1) * (x + y) by nra.
have h2 : (x + y) * ((x - y) * (t + 1)) <= (x + y) * ((t - 1) * (x + y)).
  by apply: Rmult_le_compat_l; lra.
have h3 : (x + y) * (x + y) <= 1 by nra.
have h4 : (t - 1) * ((x + y) * (x + y)) <= (t - 1) * 1 by apply: Rmult_le_compat_l; lra.
by lra.
Qed.

Section TotalVariation.
Variable I : finType.
Implicit Types (u e c p q : I -> R).

Definition less x y : bool := if Rlt_dec x y then true else false.
Lemma lessP x y : reflect (x < y) (less x y).
Proof. by rewrite /less; case: Rlt_dec => h; constructor. Qed.

(** Total variation is the difference of the masses of the set on which [p] exceeds [q]. *)
Lemma TV_set p q : \sum_i p i = 1 -> \sum_i q i = 1 ->
  TV p q = \sum_(i | less (q i) (p i)) p i - \sum_(i | less (q i) (p i)) q i.
Proof.
move=> hp hq; rewrite /TV (sum_split (fun i => less (q i) (p i))).
have -> : \sum_(i | less (q i) (p i)) Rabs (p i - q i) = \sum_(i | less (q i) (p i)) (p i - q i).
  by apply: eq_bigr => i /lessP h; rewrite Rabs_pos_eq; lra.
have -> : \sum_(i | ~~ less (q i) (p i)) Rabs (p i - q i)
        = \sum_(i | ~~ less (q i) (p i)) (q i - p i).
  by apply: eq_bigr => i /lessP h; rewrite Rabs_left1; lra.
rewrite !sumB; move: hp hq.
rewrite (sum_split (fun i => less (q i) (p i)) p) (sum_split (fun i => less (q i) (p i)) q).
by lra.
Qed.

(** Two probability vectors whose odds ratios are at most [exp D]. *)
Lemma TV_odds p q D : 0 <= D -> (forall i, 0 <= p i) -> (forall i, 0 <= q i) ->
  \sum_i p i = 1 -> \sum_i q i = 1 ->
  (forall i j, p i * q j <= exp D * (p j * q i)) -> TV p q <= tanh (D / 4).
Proof.
move=> hD hp hq hp1 hq1 hodds.
pose S i := less (q i) (p i).
have -> : TV p q = \sum_(i | S i) p i - \sum_(i | S i) q i := TV_set hp1 hq1.
have hpS := sum_split S p; have hqS := sum_split S q; rewrite hp1 in hpS; rewrite hq1 in hqS.
have pS0 : 0 <= \sum_(i | S i) p i by apply: sum_ge0.
have qS0 : 0 <= \sum_(i | S i) q i by apply: sum_ge0.
have pC0 : 0 <= \sum_(i | ~~ S i) p i by apply: sum_ge0.
have qC0 : 0 <= \sum_(i | ~~ S i) q i by apply: sum_ge0.
apply: odds_bound; try lra.
have -> : 1 - \sum_(i | S i) q i = \sum_(j | ~~ S j) q j by lra.
have -> : 1 - \sum_(i | S i) p i = \sum_(j | ~~ S j) p j by lra.
rewrite -sumZr; rewrite [X in _ <= exp D * X]Rmult_comm -sumZr -sumZl.
apply: sum_le => i _; rewrite -sumZl -!sumZl.
apply: sum_le => j _; move: (hodds i j); lra.
Qed.

(** Odds ratios of two rows of softmax. *)
Lemma softmax_odds u e i j :
  softmax u i * softmax (fun k => u k + e k) j
    <= exp (osc e) * (softmax u j * softmax (fun k => u k + e k) i).
Proof.
have hA := sum_exp_gt0 u i; have hB := sum_exp_gt0 (fun k => u k + e k) i.
rewrite /softmax /Rdiv.
set A := \sum__ _ in hA *; set B := \sum__ _ in hB *.
have hAi : 0 < / A := Rinv_0_lt_compat _ hA; have hBi : 0 < / B := Rinv_0_lt_compat _ hB.
have h : exp (u i) * exp (u j + e j) <= exp (osc e) * (exp (u j) * exp (u i + e i)).
  by rewrite -!exp_plus; apply: exp_le; have := osc_ub e j i; lra.
set r := exp (osc _) in h *.
have -> : exp (u i) * / A * (exp (u j + e j) * / B)
        = (exp (u i) * exp (u j + e j)) * (/ A * / B) by ring.
have -> : r * (exp (u j) * / A * (exp (u i + e i) * / B))
        = (r * (exp (u j) * exp (u i + e i))) * (/ A * / B) by ring.
by apply: Rmult_le_compat_r => //; apply: Rlt_le; exact: Rmult_lt_0_compat.
Qed.

Theorem softmax_TV_le u e : TV (softmax u) (softmax (fun i => u i + e i)) <= tanh (osc e / 4).
Proof.
case: (pickP (fun _ : I => true)) => [i _|hI].
- apply: TV_odds => [|j|j|||]; first exact: osc_ge0; try by apply: Rlt_le; exact: softmax_gt0.
  + exact: softmax_sum1. + exact: softmax_sum1. + exact: softmax_odds.
- have -> : TV (softmax u) (softmax (fun i => u i + e i)) = 0.
    by rewrite /TV big_pred0 => [|i]; [ring | move: (hI i)].
  by apply: tanh_ge0; move: (osc_ge0 e); lra.
Qed.

(** The same for two rows of logits [a] and [b]. *)
Lemma softmax_TV_diff (a b : I -> R) : TV (softmax a) (softmax b)
  <= tanh (osc (fun i => b i - a i) / 4).
Proof.
have -> : softmax b = softmax (fun i => a i + (b i - a i)).
  rewrite /softmax; apply: FunctionalExtensionality.functional_extensionality => i.
  have e k : a k + (b k - a k) = b k by ring.
  by rewrite e; congr (_ / _); apply: eq_bigr => k _; rewrite e.
exact: softmax_TV_le.
Qed.

(** ** Differences of means *)
Lemma TV_coupling p q c B : \sum_i p i = 1 -> \sum_i q i = 1 ->
  (forall i j, c i - c j <= B) -> \sum_i ((p i - q i) * c i) <= TV p q * B.
Proof.
move=> hp hq hB; case: (pickP (fun _ : I => true)) => [i0 _|hI]; last first.
  by move: hp; rewrite big_pred0 => [|i]; [lra | move: (hI i)].
have [m hm] := argmax c i0; set mid := c m - B / 2.
have -> : \sum_i ((p i - q i) * c i) = \sum_i ((p i - q i) * (c i - mid)).
  have -> : \sum_i ((p i - q i) * (c i - mid))
          = \sum_i ((p i - q i) * c i) - \sum_i ((p i - q i) * mid).
    by rewrite -sumB; apply: eq_bigr => i _; ring.
  by rewrite sumZr sumB hp hq; ring.
have -> : TV p q * B = \sum_i (Rabs (p i - q i) * (B / 2)) by rewrite sumZr /TV; field.
apply: sum_le => i _; apply: Rle_trans (Rle_abs _) _; rewrite Rabs_mult.
apply: Rmult_le_compat_l; first exact: Rabs_pos.
by apply: Rabs_le; rewrite /mid; move: (hm i) (hB m i); lra.
Qed.
End TotalVariation.

(** ** Equality for two tokens; [bool] has the two tokens [true] and [false] *)
Definition two (x y : R) : bool -> R := fun b => if b then x else y.

Lemma osc_two x y : osc (two x y) = Rabs (x - y).
Proof.
apply: Rle_antisym.
  apply: osc_lub => [|b c]; first exact: Rabs_pos.
  have h := Rle_abs (x - y); have := Rle_abs (y - x); rewrite (Rabs_minus_sym y x).
  by have := Rabs_pos (x - y); case: b; case: c => /=; lra.
have h := osc_ub (two x y) true false; have h' := osc_ub (two x y) false true.
by rewrite /= in h h'; apply: Rabs_le; lra.
Qed.

(** A row of two entries of softmax is given by the difference of the logits. *)
Lemma softmax_two x y : softmax (two x y) true = / 2 + / 2 * tanh ((x - y) / 2).
Proof.
rewrite /softmax big_bool /= tanh_exp.
have -> : 2 * ((x - y) / 2) = x + - y by field.
rewrite exp_plus exp_Ropp; have hx := exp_pos x; have hy := exp_pos y.
by field; lra.
Qed.

Lemma TV_two (p q : bool -> R) : \sum_b p b = 1 -> \sum_b q b = 1
  -> TV p q = Rabs (p true - q true).
Proof.
rewrite /TV !big_bool /= => hp hq.
have -> : p false - q false = - (p true - q true) by lra.
by rewrite Rabs_Ropp; field.
Qed.

Theorem softmax_TV_attained (D : R) :
  TV (softmax (two (- D / 2) 0)) (softmax (fun i => two (- D / 2) 0 i + two D 0 i))
    = tanh (osc (two D 0) / 4).
Proof.
rewrite TV_two; try exact: (softmax_sum1 _ true).
have -> : softmax (fun i => two (- D / 2) 0 i + two D 0 i) true = softmax (two (D / 2) 0) true.
  rewrite /softmax !big_bool /=.
  rewrite Rplus_0_r; have -> : - D / 2 + D = D / 2; first by field.
  by [].
rewrite !softmax_two osc_two.
have -> : (- D / 2 - 0) / 2 = - (D / 4) by field.
have -> : (D / 2 - 0) / 2 = D / 4 by field.
rewrite tanh_opp; have -> : / 2 + / 2 * - tanh (D / 4) - (/ 2 + / 2 * tanh (D / 4))
  = - tanh (D / 4).
  by field.
rewrite Rabs_Ropp Rabs_tanh; congr tanh.
by rewrite /Rdiv Rabs_mult (Rabs_pos_eq (/ 4)) ?Rminus_0_r; lra.
Qed.

(** ** Claim softmax.total-variation *)
Theorem total_variation :
  (forall (I : finType) (u e : I -> R),
     TV (softmax u) (softmax (fun i => u i + e i)) <= tanh (osc e / 4)) /\
  (forall D : R, let u := two (- D / 2) 0 in let e := two D 0 in
     TV (softmax u) (softmax (fun i => u i + e i)) = tanh (osc e / 4)).
Proof. by split; [exact: softmax_TV_le | exact: softmax_TV_attained]. Qed.

(** Near neighbor: any function below [tanh (x / 4)] at some [x >= 0] is no bound. *)
Theorem total_variation_is_best (f : R -> R) (x : R) : 0 <= x -> f x < tanh (x / 4) ->
  ~ (forall (I : finType) (u e : I -> R),
       TV (softmax u) (softmax (fun i => u i + e i)) <= f (osc e)).
Proof.
move=> hx hf h; have := h _ (two (- x / 2) 0) (two x 0).
by rewrite softmax_TV_attained osc_two Rabs_pos_eq Rminus_0_r // => {}h; lra.
Qed.

Corollary not_tanh_fifth :
  ~ (forall (I : finType) (u e : I -> R),
       TV (softmax u) (softmax (fun i => u i + e i)) <= tanh (osc e / 5)).
Proof.
apply: (@total_variation_is_best (fun x => tanh (x / 5)) 1); first by lra.
by apply: tanh_increasing; lra.
Qed.

Corollary not_tanh_2499 :
  ~ (forall (I : finType) (u e : I -> R),
       TV (softmax u) (softmax (fun i => u i + e i)) <= tanh (2499 / 10000 * osc e)).
Proof.
apply: (@total_variation_is_best (fun x => tanh (2499 / 10000 * x)) 1); first by lra.
by apply: tanh_increasing; lra.
Qed.
