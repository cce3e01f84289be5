(** * Vectors and the Euclidean norm

    A vector is a family of real numbers [K -> R] over a finite set [K].  Defined here: the inner
    product [dot], the Euclidean norm [norm u = sqrt (dot u u)], the difference [vsub].  Proved
    here: the inequality of Cauchy and Schwarz, the triangle inequality for any finite number of
    vectors, and that a norm is at most [B] if [dot v v <= B * norm v] (how bounds of barycenters
    are proved in the other files). *)
From AttnVerify Require Import Sums.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Section Vectors.
Variable K : finType.
Implicit Types u v w : K -> R.

Definition dot u v : R := \sum_k (u k * v k).
Definition norm u : R := sqrt (dot u u).
Definition vsub u v : K -> R := fun k => u k - v k.
Definition vscale (c : R) u : K -> R := fun k => c * u k.

Lemma dotC u v : dot u v = dot v u.
Proof. by apply: eq_bigr => k _; ring. Qed.
Lemma dotDl u v w : dot (fun k => u k + v k) w = dot u w + dot v w.
Proof. by rewrite /dot -sumD; apply: eq_bigr => k _; ring. Qed.
Lemma dotDr u v w : dot w (fun k => u k + v k) = dot w u + dot w v.
Proof. by rewrite dotC dotDl !(dotC w). Qed.
Lemma dotBl u v w : dot (vsub u v) w = dot u w - dot v w.
Proof. by rewrite /dot -sumB; apply: eq_bigr => k _; rewrite /vsub; ring. Qed.
Lemma dotBr u v w : dot w (vsub u v) = dot w u - dot w v.
Proof. by rewrite dotC dotBl !(dotC w). Qed.
Lemma dotZl c u w : dot (vscale c u) w = c * dot u w.
Proof. by rewrite /dot -sumZl; apply: eq_bigr => k _; rewrite /vscale; ring. Qed.
Lemma dotZr c u w : dot w (vscale c u) = c * dot w u.
Proof. by rewrite dotC dotZl dotC. Qed.
Lemma dot_suml (J : finType) (F : J -> K -> R) w :
  dot (fun k => \sum_j F j k) w = \sum_j dot (F j) w.
Proof. by rewrite /dot -sum_exchange; apply: eq_bigr => k _; rewrite sumZr. Qed.

Lemma dot_ge0 u : 0 <= dot u u.
Proof. by apply: sum_ge0 => k _; nra. Qed.
Lemma norm_ge0 u : 0 <= norm u. Proof. exact: sqrt_pos. Qed.
Lemma norm_sq u : norm u * norm u = dot u u. Proof. exact: sqrt_sqrt (dot_ge0 u). Qed.

Lemma norm_eq0 u : norm u = 0 -> forall k, u k = 0.
Proof.
move=> h k; have h0 : dot u u = 0 by rewrite -norm_sq h; ring.
have : u k * u k <= 0.
  by rewrite -h0; apply: (sum_ge_term (F := fun k => u k * u k)) => j; exact: square_ge0.
by move=> h1; nra.
Qed.

Lemma norm_0 : norm (fun _ => 0) = 0.
Proof. by rewrite /norm /dot sum_eq0 ?sqrt_0 // => k _; ring. Qed.

Lemma norm0_dot u v : norm u = 0 -> dot u v = 0.
Proof. by move=> h; apply: sum_eq0 => k _; rewrite (norm_eq0 h); ring. Qed.

Lemma normZ c u : norm (vscale c u) = Rabs c * norm u.
Proof.
rewrite {1}/norm dotZl dotZr -norm_sq.
have -> : c * (c * (norm u * norm u)) = (c * norm u) * (c * norm u) by ring.
rewrite -[_ * _]/(Rsqr _) sqrt_Rsqr_abs Rabs_mult (Rabs_pos_eq (norm u)) //; exact: norm_ge0.
Qed.

Lemma norm_opp u : norm (fun k => - u k) = norm u.
Proof.
have -> : (fun k => - u k) = vscale (-1) u.
  by apply: functional_extensionality => k; rewrite /vscale; ring.
by rewrite normZ Rabs_Ropp Rabs_R1; ring.
Qed.

Lemma norm_vsubC u v : norm (vsub u v) = norm (vsub v u).
Proof.
rewrite -norm_opp; congr norm; apply: functional_extensionality => k.
by rewrite /vsub; ring.
Qed.

Lemma vsub_refl u : vsub u u = fun _ => 0.
Proof. by apply: functional_extensionality => k; rewrite /vsub; ring. Qed.

Theorem cauchy_schwarz u v : dot u v <= norm u * norm v.
Proof.
have hu := norm_ge0 u; have hv := norm_ge0 v.
case: (Req_dec (norm u) 0) => [h|hu0]; first by rewrite (norm0_dot _ h) h; lra.
case: (Req_dec (norm v) 0) => [h|hv0]; first by rewrite dotC (norm0_dot _ h) h; lra.
have := dot_ge0 (fun k => norm v * u k - norm u * v k).
have -> : dot (fun k => norm v * u k - norm u * v k) (fun k => norm v * u k - norm u * v k)
        = norm v * norm v * dot u u + norm u * norm u * dot v v - 2 * (norm u * norm v) * dot u v.
  by rewrite /dot -!sumZl -sumD -sumB; apply: eq_bigr => k _; ring.
rewrite -!norm_sq; set s := norm u in hu hu0 *; set t := norm v in hv hv0 *; move=> h.
have hst : 0 < s * t by apply: Rmult_lt_0_compat; lra.
apply: (Rmult_le_reg_l (s * t)) => //; nra.
Qed.

Lemma cauchy_schwarz_abs u v : Rabs (dot u v) <= norm u * norm v.
Proof.
apply: Rabs_le; have h := cauchy_schwarz u v; have := cauchy_schwarz (vscale (-1) u) v.
by rewrite dotZl normZ Rabs_Ropp Rabs_R1; lra.
Qed.

Lemma norm_dual v B : 0 <= B -> dot v v <= B * norm v -> norm v <= B.
Proof.
move=> hB; rewrite -norm_sq => h; have := norm_ge0 v => h0.
case: (Req_dec (norm v) 0) => [->|hn] //.
by apply: (Rmult_le_reg_r (norm v)); lra.
Qed.

Theorem norm_sum (J : finType) (F : J -> K -> R) :
  norm (fun k => \sum_j F j k) <= \sum_j norm (F j).
Proof.
apply: norm_dual; first by apply: sum_ge0 => j _; exact: norm_ge0.
rewrite dot_suml -sumZr; apply: sum_le => j _; exact: cauchy_schwarz.
Qed.

Lemma norm_triangle u v : norm (fun k => u k + v k) <= norm u + norm v.
Proof.
have := norm_sum (fun b : bool => if b then u else v); rewrite big_bool /=.
by congr (norm _ <= _); apply: functional_extensionality => k; rewrite big_bool.
Qed.
End Vectors.
