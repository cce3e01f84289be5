(** * How far the mass of a row of softmax moves

    If the logits [r] change by [e] and [osc e <= critical], the total variation of the two rows
    is at most [2 \sum_j softmax r j * Rabs (e j)] ([moved_mass]). Unlike the bound by [tanh (osc
    e / 4)] this is a sum over tokens, so it can be added up over rows.

    The book integrates along [r + s e], [0 <= s <= 1]. Here the path has [N] equal steps, each of
    which moves at most [exp (B/N)/N \sum_j p_j(s) Rabs (e j)] ([moved_step]); the weights grow at
    most by [exp (s B)] ([weight_growth]); the geometric series gives [exp (B/N) (exp B - 1)/B],
    which is [2 exp (B/N)] for [B = critical]; and [N] is arbitrary. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Critical.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

(** ** One step *)
Section MovedMass.
Variables (I : finType) (r e : I -> R).
Let p := softmax r.
Let P := softmax (fun i => r i + e i).

Lemma exp_difference a b B : exp a <= B -> exp b <= B -> Rabs (exp a - exp b) <= B * Rabs (a - b).
Proof.
have one x y : x <= y -> exp y - exp x <= exp y * (y - x).
  move=> h; have := exp_ineq1_le (x - y); have hy := exp_pos y.
  have -> : exp x = exp y * exp (x - y) by rewrite -exp_plus; congr exp; ring.
  by nra.
move=> ha hb; case: (Rle_dec a b) => h.
- rewrite (Rabs_left1 (a - b)); last by lra.
  rewrite Rabs_left1; last by have := exp_le h; lra.
  by have := one _ _ h; have := exp_pos b; nra.
- rewrite (Rabs_pos_eq (a - b)); last by lra.
  have h' : b <= a by lra.
  rewrite Rabs_pos_eq; last by have := exp_le h'; lra.
  by have := one _ _ h'; have := exp_pos a; nra.
Qed.

Lemma moved_step : TV P p <= exp (osc e) * \sum_j (p j * Rabs (e j)).
Proof.
case: (pickP (fun _ : I => true)) => [i0 _|hI]; last first.
  by rewrite /TV !big_pred0 => [|i|i]; [lra | have := hI i | have := hI i].
pose m := \sum_l (p l * exp (e l)).
have hp l : 0 < p l := softmax_gt0 r l.
have hp1 : \sum_l p l = 1 := softmax_sum1 r i0.
have hm : 0 < m by apply: sum_gt0 => // l; apply: Rmult_lt_0_compat => //; exact: exp_pos.
have hP j : P j = p j * exp (e j) / m.
  have hZ := sum_exp_gt0 r i0; rewrite /P /m /p /softmax.
  have -> : \sum_l (exp (r l) / (\sum_j exp (r j)) * exp (e l))
    = (\sum_l exp (r l + e l)) / (\sum_j exp (r j)).
    by rewrite /Rdiv -sumZr; apply: eq_bigr => l _; rewrite exp_plus; ring.
  have hZ' := sum_exp_gt0 (fun l => r l + e l) i0; rewrite exp_plus.
  by field; split; lra.
have hB j : exp (e j) <= exp (osc e) * m.
  rewrite /m -sumZl; apply: (@Rle_trans _ (\sum_l (p l * exp (e j)))).
    by rewrite sumZr hp1; lra.
  apply: sum_le => l _.
  have h : exp (e j) <= exp (osc e) * exp (e l).
    by rewrite -exp_plus; apply: exp_le; have := osc_ub e j l; lra.
  by have := Rmult_le_compat_l _ _ _ (Rlt_le _ _ (hp l)) h; lra.
pose S := \sum_l (p l * Rabs (e l)).
have hS : 0 <= S by apply: sum_ge0 => l _; apply: Rmult_le_pos; [exact: Rlt_le | exact: Rabs_pos].
have each j : Rabs (P j - p j) <= exp (osc e) * (p j * (Rabs (e j) + S)).
  have -> : P j - p j = p j * (\sum_l (p l * (exp (e j) - exp (e l)))) / m.
    have -> : \sum_l (p l * (exp (e j) - exp (e l))) = exp (e j) - m.
      under eq_bigr => l _ do rewrite Rmult_minus_distr_l.
      by rewrite sumB sumZr hp1 Rmult_1_l.
    by rewrite hP; field; lra.
  have hi : 0 < / m := Rinv_0_lt_compat _ hm.
  rewrite /Rdiv Rabs_mult (Rabs_mult (p j)) (Rabs_pos_eq (p j)) ?(Rabs_pos_eq (/ m));
    try exact: Rlt_le.
  have h : Rabs (\sum_l (p l * (exp (e j) - exp (e l)))) <= exp (osc e) * m * (Rabs (e j) + S).
    apply: Rle_trans (sum_abs _ _) _.
    have -> : exp (osc e) * m * (Rabs (e j) + S)
      = \sum_l (p l * (exp (osc e) * m * (Rabs (e j) + Rabs (e l)))).
      have -> : \sum_l (p l * (exp (osc e) * m * (Rabs (e j) + Rabs (e l))))
        = exp (osc e) * m * (Rabs (e j) * (\sum_l p l) + S).
        rewrite -sumZl -sumD -sumZl; apply: eq_bigr => l _; ring.
      by rewrite hp1; ring.
    apply: sum_le => l _; rewrite (Rabs_mult (p l)) (Rabs_pos_eq (p l)); last exact: Rlt_le.
    apply: Rmult_le_compat_l; first exact: Rlt_le.
    apply: Rle_trans (exp_difference (hB j) (hB l)) _.
    apply: Rmult_le_compat_l; first by apply: Rmult_le_pos; [exact: Rlt_le (exp_pos _) | lra].
    by have := Rabs_triang (e j) (- e l); rewrite Rabs_Ropp.
  have h2 := Rmult_le_compat_r _ _ _ (Rlt_le _ _ hi)
    (Rmult_le_compat_l _ _ _ (Rlt_le _ _ (hp j)) h).
  have e2 : p j * (exp (osc e) * m * (Rabs (e j) + S)) * / m = exp (osc e)
    * (p j * (Rabs (e j) + S)).
    by field; lra.
  by rewrite -e2; lra.
rewrite /TV -/S; have : \sum_j Rabs (P j - p j) <= \sum_j (exp (osc e) * (p j * (Rabs (e j) + S))).
  by apply: sum_le => j _; exact: each.
have -> : \sum_j (exp (osc e) * (p j * (Rabs (e j) + S))) = exp (osc e) * (2 * S).
  rewrite sumZl; congr (_ * _); under eq_bigr => j _ do rewrite Rmult_plus_distr_l.
  by rewrite sumD sumZr hp1 -/S; ring.
by lra.
Qed.
End MovedMass.

(** No weight grows by a factor of more than [exp (osc e)]. *)
Lemma weight_growth (I : finType) (r e : I -> R) j :
  softmax (fun i => r i + e i) j <= exp (osc e) * softmax r j.
Proof.
have h1 := softmax_sum1 r j; have h2 := softmax_sum1 (fun i => r i + e i) j.
have : \sum_i (softmax r i * softmax (fun k => r k + e k) j)
  <= \sum_i (exp (osc e) * softmax r j * softmax (fun k => r k + e k) i).
  by apply: sum_le => i _; have := softmax_odds r e i j; lra.
by rewrite sumZr sumZl h1 h2; lra.
Qed.

Lemma TV_triangle (I : finType) (p q w : I -> R) : TV p w <= TV p q + TV q w.
Proof.
rewrite /TV -Rmult_plus_distr_l; apply: Rmult_le_compat_l; first by lra.
rewrite -sumD; apply: sum_le => i _; have := Rabs_triang (p i - q i) (q i - w i).
by have -> : p i - q i + (q i - w i) = p i - w i by ring.
Qed.

(** ** Many steps *)
Section Path.
Variables (I : finType) (r e : I -> R).
Hypothesis he : osc e <= critical.
Let S : R := \sum_j (softmax r j * Rabs (e j)).

Lemma moved_steps (N m : nat) : (0 < N)%coq_nat ->
  (exp (critical / INR N) - 1) * TV (softmax (fun j => r j + INR m / INR N * e j)) (softmax r)
    <= exp (critical / INR N) / INR N * S * (exp (critical / INR N) ^ m - 1).
Proof.
move=> hN; have hN' : 0 < INR N by exact: lt_0_INR.
have hc := critical_bounds; have hcN : 0 < critical / INR N by apply: Rdiv_lt_0_compat; lra.
set t := exp (critical / INR N); have ht : 1 <= t by have := exp_ineq1_le (critical / INR N);
  rewrite /t; lra.
have hS : 0 <= S.
  by apply: sum_ge0 => j _; apply: Rmult_le_pos;
    [apply: Rlt_le; exact: softmax_gt0 | exact: Rabs_pos].
have oscZ c : 0 <= c -> osc (fun j => c * e j) <= c * critical.
  move=> h; apply: osc_lub => [|i j]; first by apply: Rmult_le_pos; lra.
  by have := osc_ub e i j; rewrite -Rmult_minus_distr_l => h1; apply: Rmult_le_compat_l => //; lra.
elim: m => [|m IH].
  have -> : (fun j => r j + INR 0 / INR N * e j) = r.
    by apply: functional_extensionality => j; rewrite /= /Rdiv; ring.
  by rewrite TV_refl /=; lra.
set q := softmax (fun j => r j + INR m / INR N * e j) in IH *.
set q' := softmax (fun j => r j + INR (Nat.succ m) / INR N * e j).
have step : TV q' q <= t * (/ INR N * (t ^ m * S)).
  have -> : q' = softmax (fun j => (r j + INR m / INR N * e j) + / INR N * e j).
    by congr softmax; apply: functional_extensionality => j; rewrite S_INR; field; lra.
  have hi : 0 <= / INR N by apply: Rlt_le; exact: Rinv_0_lt_compat.
  apply: Rle_trans (moved_step _ _) _.
  have h1 : exp (osc (fun j => / INR N * e j)) <= t.
    by apply: exp_le; have := oscZ _ hi; rewrite /Rdiv; lra.
  have h2 : \sum_j (q j * Rabs (/ INR N * e j)) <= / INR N * (t ^ m * S).
    have -> : \sum_j (q j * Rabs (/ INR N * e j)) = / INR N * (\sum_j (q j * Rabs (e j))).
      by rewrite -sumZl; apply: eq_bigr => j _; rewrite Rabs_mult (Rabs_pos_eq (/ _)) //; ring.
    apply: Rmult_le_compat_l => //; rewrite /S -sumZl; apply: sum_le => j _.
    rewrite -Rmult_assoc; apply: Rmult_le_compat_r; first exact: Rabs_pos.
    apply: Rle_trans (weight_growth _ _ _) _; apply: Rmult_le_compat_r.
      by apply: Rlt_le; exact: softmax_gt0.
    have -> : t ^ m = exp (INR m / INR N * critical).
      elim: (m) => [|n IHn]; first by rewrite /= /Rdiv !Rmult_0_l exp_0.
      by rewrite S_INR /= IHn /t -exp_plus; congr exp; field; lra.
    apply: exp_le; apply: oscZ; apply: Rmult_le_pos => //; exact: pos_INR.
  apply: Rmult_le_compat => //; first by apply: Rlt_le; exact: exp_pos.
  apply: sum_ge0 => j _; apply: Rmult_le_pos; [apply: Rlt_le; exact: softmax_gt0 | exact: Rabs_pos].
have h := Rle_trans _ _ _ (TV_triangle q' q (softmax r)) (Rplus_le_compat_r _ _ _ step).
have h' := Rmult_le_compat_l (t - 1) _ _ ltac:(lra) h.
have e1 : (t - 1) * (t * (/ INR N * (t ^ m * S)) + TV q (softmax r))
  = t / INR N * S * (t ^ m * (t - 1)) + (t - 1) * TV q (softmax r) by rewrite /Rdiv; ring.
rewrite e1 in h'; rewrite /=; apply: Rle_trans h' _.
have e2 : t / INR N * S * (t * t ^ m - 1)
  = t / INR N * S * (t ^ m * (t - 1)) + t / INR N * S * (t ^ m - 1) by ring.
by rewrite e2; lra.
Qed.

Theorem moved_mass : TV (softmax (fun j => r j + e j)) (softmax r) <= 2 * S.
Proof.
have hc := critical_bounds; set v := TV _ _.
have hv : 0 <= v := TV_ge0 _ _.
have all N : (0 < N)%coq_nat -> v * (1 - critical / INR N) <= 2 * S.
  move=> hN; have hN' : 0 < INR N by exact: lt_0_INR.
  have := moved_steps N hN.
  have -> : (fun j => r j + INR N / INR N * e j) = (fun j => r j + e j).
    by apply: functional_extensionality => j; field; lra.
  rewrite -/v; set t := exp (critical / INR N).
  have hpow : t ^ N = exp critical.
    have hn n : t ^ n = exp (INR n / INR N * critical).
      elim: n => [|n IHn]; first by rewrite /= /Rdiv !Rmult_0_l exp_0.
      by rewrite S_INR /= IHn /t -exp_plus; congr exp; field; lra.
    by rewrite hn; congr exp; field; lra.
  rewrite hpow critical_root => h.
  have ht : 0 < t := exp_pos _.
  have ht1 : critical / INR N <= t - 1 by have := exp_ineq1_le (critical / INR N); rewrite -/t; lra.
  have h1 : critical / INR N * v <= t / INR N * S * (2 * critical).
    by apply: Rle_trans (Rmult_le_compat_r _ _ _ hv ht1) _; lra.
  have h2 : v <= t * (2 * S).
    apply: (Rmult_le_reg_l (critical / INR N)); first by apply: Rdiv_lt_0_compat; lra.
    by apply: Rle_trans h1 _; right; field; lra.
  have h3 : t * (1 - critical / INR N) <= 1.
    have := exp_ineq1_le (- (critical / INR N)).
    have e1 : t * exp (- (critical / INR N)) = 1 by rewrite /t -exp_plus Rplus_opp_r exp_0.
    by move=> h4; have := Rmult_le_compat_l _ _ _ (Rlt_le _ _ ht) h4; lra.
  have hS : 0 <= S.
    by apply: sum_ge0 => j _; apply: Rmult_le_pos;
      [apply: Rlt_le; exact: softmax_gt0 | exact: Rabs_pos].
  case: (Rle_dec 0 (1 - critical / INR N)) => h5; last by nra.
  have h6 := Rmult_le_compat_r _ _ _ h5 h2.
  have h7 := Rmult_le_compat_r (2 * S) _ _ ltac:(lra) h3.
  by lra.
apply: Rnot_lt_le => hlt; have hgap : 0 < v - 2 * S by lra.
have hcv : 0 <= v * critical by apply: Rmult_le_pos; lra.
have heps : 0 < (v - 2 * S) / (v * critical + 1) by apply: Rdiv_lt_0_compat; lra.
have [N [hN hN0]] := archimed_cor1 _ heps.
have := all N hN0; rewrite /Rdiv => h1.
have h2 : (v * critical + 1) * / INR N < v - 2 * S.
  have := Rmult_lt_compat_l (v * critical + 1) _ _ ltac:(lra) hN.
  by have -> : (v * critical + 1) * ((v - 2 * S) / (v * critical + 1)) = v - 2 * S by field; lra.
have h3 : 0 < / INR N by apply: Rinv_0_lt_compat; exact: lt_0_INR.
by lra.
Qed.
End Path.

