(** * A causal mask ends the cubic rate

    Claim collapse.causal-mask.  Two different tokens, one head, [WV = I], no biases; the first
    token may attend only to itself.  It stays where it is, and the distance [delta] of the two
    becomes [delta'] with

      [|delta'/delta - 1/2| <= (1/2) tanh (|WQK| |x_2| delta / (2 sqrt d_qk))].

    Over layers with [|WQK| <= q] for one [q] the ratio of successive distances tends to 1/2.

    The attention of a token under the mask is the softmax over the tokens up to itself, and 0 on
    the others ([causal_attention]); tokens are the elements of ['I_2], in order. *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter Attention.
From AttnVerify Require Import SharpLayer SharpDepth.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Section CausalMask.
Variables (n : nat) (K D : finType).

(** The logits of a head without biases: [X WQ (X WK)^T / sqrt d_qk]. *)
Definition bare_logits (WQ WK : K -> D -> R) (X : 'I_n -> K -> R) : 'I_n -> 'I_n -> R :=
  fun i j => mul (mul X WQ) (tr (mul X WK)) i j / root_key_width D.

(** Softmax of every row over the tokens [j <= i]. *)
Definition causal_attention (WQ WK : K -> D -> R) (X : 'I_n -> K -> R) : 'I_n -> 'I_n -> R :=
  fun i j => if (j <= i)%nat then
    exp (bare_logits WQ WK X i j) / \sum_(k : 'I_n | (k <= i)%nat) exp (bare_logits WQ WK X i k)
      else 0.

(** A layer with [WV = I]. *)
Definition causal_layer (WQ WK : K -> D -> R) (X : 'I_n -> K -> R) : 'I_n -> K -> R :=
  mul (causal_attention WQ WK X) X.

Fixpoint causal_states (WQ WK : nat -> K -> D -> R) (X : 'I_n -> K -> R) (l : nat) :=
  match l with O => X | S l => causal_layer (WQ l) (WK l) (causal_states WQ WK X l) end.
End CausalMask.

(** ** Two tokens *)
Section TwoTokens.
Variables (K D : finType).
Definition first : 'I_2 := ord0.
Definition second : 'I_2 := lift ord0 ord0.
Implicit Types (WQ WK : K -> D -> R) (X : 'I_2 -> K -> R).

Definition distance X : R := norm (vsub (X second) (X first)).

(** [z], the second token's logit for itself less that for the first. *)
Definition score WQ WK X : R :=
  dot (lin (mul WQ (tr WK)) (X second)) (vsub (X second) (X first)) / root_key_width D.

Lemma first_stays WQ WK X : causal_layer WQ WK X first = X first.
Proof.
apply: functional_extensionality => k.
rewrite /causal_layer /mul /causal_attention !big_ord_recl !big_ord0 /=.
rewrite !big_mkcond !big_ord_recl !big_ord0 /=.
set e := exp _; have he : 0 < e := exp_pos _.
have -> : X ord0 k = X first k by [].
by field; lra.
Qed.

Lemma score_logits WQ WK X :
  bare_logits WQ WK X second second - bare_logits WQ WK X second first = score WQ WK X.
Proof.
rewrite /score lin_mul dot_lin trK linB dotBr /bare_logits /Rdiv -Rmult_minus_distr_r.
by [].
Qed.

(** The difference keeps its direction and is multiplied by [sigma (z) = (1 + tanh (z/2))/2]. *)
Lemma causal_difference WQ WK X :
  vsub (causal_layer WQ WK X second) (causal_layer WQ WK X first)
    = vscale (/ 2 + / 2 * tanh (score WQ WK X / 2)) (vsub (X second) (X first)).
Proof.
rewrite first_stays -score_logits; apply: functional_extensionality => k.
rewrite /vsub /vscale /causal_layer /mul /causal_attention !big_ord_recl !big_ord0 /=.
rewrite !big_mkcond !big_ord_recl !big_ord0 /= -/first -/second.
set a := bare_logits _ _ _ second first; set b := bare_logits _ _ _ second second.
rewrite tanh_exp; have -> : 2 * ((b - a) / 2) = b + - a by field.
rewrite exp_plus exp_Ropp; have ha := exp_pos a; have hb := exp_pos b.
by field; lra.
Qed.

Lemma causal_distance WQ WK X :
  distance (causal_layer WQ WK X) = (/ 2 + / 2 * tanh (score WQ WK X / 2)) * distance X.
Proof.
rewrite /distance causal_difference normZ Rabs_pos_eq //.
by have := tanh_gtN1 (score WQ WK X / 2); lra.
Qed.

Lemma score_bound WQ WK X :
  Rabs (score WQ WK X)
    <= opnorm (mul WQ (tr WK)) * norm (X second) * distance X / root_key_width D.
Proof.
rewrite /score /Rdiv Rabs_mult (Rabs_pos_eq (/ _)); last exact: inv_root_ge0.
by apply: Rmult_le_compat_r; [exact: inv_root_ge0 | exact: bilinear_abs].
Qed.

Lemma causal_ratio WQ WK X : 0 < distance X ->
  Rabs (distance (causal_layer WQ WK X) / distance X - / 2)
    <= / 2 * tanh (Rabs (score WQ WK X) / 2).
Proof.
move=> hd; rewrite causal_distance.
have -> : (/ 2 + / 2 * tanh (score WQ WK X / 2)) * distance X / distance X - / 2
        = / 2 * tanh (score WQ WK X / 2) by field; lra.
rewrite Rabs_mult Rabs_tanh (Rabs_pos_eq (/ 2)); last by lra.
rewrite /Rdiv Rabs_mult (Rabs_pos_eq (/ 2)); lra.
Qed.

Theorem causal_ratio_bound WQ WK X : X first <> X second ->
  causal_layer WQ WK X first = X first /\
  Rabs (distance (causal_layer WQ WK X) / distance X - / 2)
    <= / 2 * tanh (opnorm (mul WQ (tr WK)) * norm (X second) * distance X
                   / (2 * root_key_width D)).
Proof.
move=> hX; split; first exact: first_stays.
have hd : 0 < distance X.
  case: (Rle_lt_or_eq_dec _ _ (norm_ge0 (vsub (X second) (X first)))) => // h0; case: hX.
  apply: functional_extensionality => k; have := norm_eq0 (esym h0) k; rewrite /vsub; lra.
apply: Rle_trans (causal_ratio _ _ hd) _; apply: Rmult_le_compat_l; first by lra.
apply: tanh_le; rewrite /Rdiv Rinv_mult.
have := score_bound WQ WK X; rewrite /Rdiv; lra.
Qed.

(** ** Over depth *)
Section Depth.
Variables (WQ WK : nat -> K -> D -> R) (X : 'I_2 -> K -> R) (q : R).
Hypothesis hX : X first <> X second.
Hypothesis hq : forall l, opnorm (mul (WQ l) (tr (WK l))) <= q.
Let S l := causal_states WQ WK X l.
Let d l := distance (S l).
Let M := Rmax (norm (X first)) (norm (X second)).

Lemma q_ge0 : 0 <= q. Proof. by apply: Rle_trans (hq O); exact: opnorm_ge0. Qed.

Lemma distance_gt0 l : 0 < d l.
Proof.
elim: l => [|l IH].
  case: (Rle_lt_or_eq_dec _ _ (norm_ge0 (vsub (X second) (X first)))) => // h0; case: hX.
  apply: functional_extensionality => k; have := norm_eq0 (esym h0) k; rewrite /vsub; lra.
rewrite /d /S /= causal_distance -/(S l) -/(d l); apply: Rmult_lt_0_compat => //.
by have := tanh_gtN1 (score (WQ l) (WK l) (S l) / 2); lra.
Qed.

(** No token ever gets longer than the longer of the two at the start. *)
Lemma first_norm l : norm (S l first) <= M.
Proof. by elim: l => [|l IH]; [exact: Rmax_l | rewrite /S /= first_stays]. Qed.

Lemma second_norm l : norm (S l second) <= M.
Proof.
elim: l => [|l IH]; first exact: Rmax_r.
pose w := / 2 + / 2 * tanh (score (WQ l) (WK l) (S l) / 2).
have hw : 0 <= w <= 1.
  by have := tanh_gtN1 (score (WQ l) (WK l) (S l) / 2);
    have := tanh_lt1 (score (WQ l) (WK l) (S l) / 2);
    rewrite /w; lra.
have -> : S (l.+1) second = fun k => vscale (1 - w) (S l first) k + vscale w (S l second) k.
  apply: functional_extensionality => k.
  have := f_equal (fun u => u k) (causal_difference (WQ l) (WK l) (S l)).
  by rewrite first_stays -/w /vsub /vscale /S /= => h; lra.
apply: Rle_trans (norm_triangle _ _) _; rewrite !normZ !Rabs_pos_eq; try lra.
have h1 := first_norm l.
have := Rmult_le_compat_l (1 - w) _ _ ltac:(lra) h1.
by have := Rmult_le_compat_l w _ _ (proj1 hw) IH; lra.
Qed.

(** All scores are at most [Z d_l / d_0] with [Z = q M d_0 / sqrt d_qk]. *)
Lemma score_small l : Rabs (score (WQ l) (WK l) (S l)) <= q * M / root_key_width D * d l.
Proof.
apply: Rle_trans (score_bound _ _ _) _.
have -> : q * M / root_key_width D * d l = q * M * d l / root_key_width D by rewrite /Rdiv; ring.
apply: Rmult_le_compat_r; first exact: inv_root_ge0.
apply: Rmult_le_compat_r; first exact: norm_ge0.
apply: Rmult_le_compat; [exact: opnorm_ge0 | exact: norm_ge0 | exact: hq | exact: second_norm].
Qed.

Lemma half_ratio l : Rabs (d (l.+1) / d l - / 2) <= / 2 * tanh (q * M / root_key_width D / 2 * d l).
Proof.
apply: Rle_trans (causal_ratio (WQ l) (WK l) (distance_gt0 l)) _.
apply: Rmult_le_compat_l; first by lra.
by apply: tanh_le; have := score_small l; lra.
Qed.

Theorem ratio_limit : tends_to_zero (fun l => d (l.+1) / d l - / 2).
Proof.
pose c := q * M / root_key_width D / 2.
have hM : 0 <= M by apply: Rle_trans (first_norm O); exact: norm_ge0.
have hc : 0 <= c.
  apply: Rmult_le_pos; last by lra.
  by apply: Rmult_le_pos; [apply: Rmult_le_pos => //; exact: q_ge0 | exact: inv_root_ge0].
pose f x := / 2 + / 2 * tanh (c * x).
have hf x y : 0 <= x <= y -> 0 <= f x <= f y.
  move=> hxy; have h1 : 0 <= c * x by apply: Rmult_le_pos; lra.
  have h2 : c * x <= c * y by apply: Rmult_le_compat_l; lra.
  by have := tanh_ge0 h1; have := tanh_le h2; rewrite /f; lra.
have hd l : 0 <= d l by apply: Rlt_le; exact: distance_gt0.
have hrec l : d (l.+1) <= f (d l) * d l.
  have h := half_ratio l; have hl := distance_gt0 l.
  have h' := Rle_trans _ _ _ (Rle_abs _) h; rewrite -/c in h'.
  have -> : d l.+1 = d l.+1 / d l * d l by field; lra.
  by apply: Rmult_le_compat_r => //; rewrite /f; lra.
have hf1 : f (d 0%nat) < 1 by have := tanh_lt1 (c * d 0%nat); rewrite /f; lra.
have hg := geometric_recursion hd hf hrec (Rlt_le _ _ hf1).
have hz : tends_to_zero d.
  apply: (geometric_limit (r := f (d 0%nat)) (d := d 0%nat)).
    by split=> //; case: (hf (d 0%nat) (d 0%nat)) => //; have := hd 0%nat; lra.
  by move=> l; split=> //; exact: (hg l).1.
move=> eps he; have he' : 0 < eps / (c + 1) by apply: Rdiv_lt_0_compat; lra.
have [N hN] := hz _ he'; exists N => l hl.
apply: Rle_lt_trans (half_ratio l) _; rewrite -/c.
have := hN l hl; rewrite Rabs_pos_eq // => h1.
have hcd : 0 <= c * d l by apply: Rmult_le_pos.
have h2 := tanh_le_id hcd.
have h3 : d l * (c + 1) < eps.
  have := Rmult_lt_compat_r (c + 1) _ _ ltac:(lra) h1.
  by have -> : eps / (c + 1) * (c + 1) = eps by field; lra.
by have := hd l; lra.
Qed.
End Depth.
End TwoTokens.

(** ** Claim collapse.causal-mask *)
Theorem causal_mask (K D : finType) :
  (forall (WQ WK : K -> D -> R) (X : 'I_2 -> K -> R), X first <> X second ->
     causal_layer WQ WK X first = X first /\
     Rabs (distance (causal_layer WQ WK X) / distance X - / 2)
       <= / 2 * tanh (opnorm (mul WQ (tr WK)) * norm (X second) * distance X
                      / (2 * root_key_width D))) /\
  (forall (WQ WK : nat -> K -> D -> R) (X : 'I_2 -> K -> R) (q : R), X first <> X second ->
     (forall l, opnorm (mul (WQ l) (tr (WK l))) <= q) ->
     forall eps, 0 < eps -> exists N, forall l, Nat.le N l ->
       Rabs (distance (causal_states WQ WK X (S l)) / distance (causal_states WQ WK X l) - / 2)
         < eps).
Proof. by split=> [WQ WK X|WQ WK X q hX hq];
  [exact: causal_ratio_bound | exact: (ratio_limit hX hq)]. Qed.

(** ** Near neighbors: the tokens 1/2 and 1 of one feature, [WQ = WK = 1] *)
Section Neighbors.
Local Notation unit := unit_finType.
Let one : unit -> unit -> R := scale 1 (outer (basis tt) (basis tt)).
Let half : 'I_2 -> unit -> R := fun i => vscale (if i == second then 1 else / 2) (basis tt).

Lemma half_distance : distance half = / 2.
Proof.
rewrite /distance; have -> : vsub (half second) (half first) = vscale (/ 2) (basis tt).
  by apply: functional_extensionality => k; rewrite /vsub /half /vscale /=; field.
by rewrite normZ norm_basis Rabs_pos_eq; lra.
Qed.

Lemma half_score : score one one half = / 2.
Proof.
have hb := norm_basis (tt : unit); have hd : dot (basis tt) (basis (tt : unit)) = 1.
  by rewrite -norm_sq hb; ring.
have -> : score one one half = dot (lin (mul one (tr one)) (half second))
  (vsub (half second) (half first)) / 1 by rewrite /score root_unit.
have -> : vsub (half second) (half first) = vscale (/ 2) (basis tt).
  by apply: functional_extensionality => k; rewrite /vsub /half /vscale /=; field.
rewrite /one tr_scale tr_outer mulZl mulZr mul_outer hd 3!lin_scale lin_outer /half /=.
by rewrite !(dotZl, dotZr) hd; field.
Qed.

Lemma half_norms : opnorm (mul one (tr one)) = 1 /\ norm (half second) = 1.
Proof.
have hb := norm_basis (tt : unit); have hd : dot (basis tt) (basis (tt : unit)) = 1.
  by rewrite -norm_sq hb; ring.
split; last by rewrite /half /= normZ hb Rabs_R1; ring.
rewrite /one tr_scale tr_outer mulZl mulZr mul_outer hd.
have -> : scale 1 (scale 1 (scale 1 (outer (basis tt) (basis tt))))
  = scale 1 (outer (basis tt) (basis tt)).
  by apply: matrix_eq => i j; rewrite /scale; ring.
by apply: opnorm_outer => //; lra.
Qed.

Theorem not_causal_999 :
  ~ (forall (K D : finType) (WQ WK : K -> D -> R) (X : 'I_2 -> K -> R), X first <> X second ->
     Rabs (distance (causal_layer WQ WK X) / distance X - / 2)
       <= 999 / 1000 * (/ 2 * tanh (opnorm (mul WQ (tr WK)) * norm (X second) * distance X
                      / (2 * root_key_width D)))).
Proof.
move=> h; have hne : half first <> half second.
  by move/(f_equal (fun u => u tt)); rewrite /half /vscale /basis /=; lra.
have := h _ _ one one half hne; have [-> ->] := half_norms.
rewrite causal_distance half_score half_distance root_unit.
have -> : (/ 2 + / 2 * tanh (/ 2 / 2)) * / 2 / / 2 - / 2 = / 2 * tanh (/ 2 / 2) by field.
have -> : 1 * 1 * / 2 / (2 * 1) = / 2 / 2 by field.
have h0 := tanh_gt0 (x := / 2 / 2) ltac:(lra).
by rewrite Rabs_pos_eq; lra.
Qed.

(** tanh of a quarter in place of a half. *)
Theorem not_causal_quarter :
  ~ (forall (K D : finType) (WQ WK : K -> D -> R) (X : 'I_2 -> K -> R), X first <> X second ->
     Rabs (distance (causal_layer WQ WK X) / distance X - / 2)
       <= / 2 * tanh (opnorm (mul WQ (tr WK)) * norm (X second) * distance X
                      / (4 * root_key_width D))).
Proof.
move=> h; have hne : half first <> half second.
  by move/(f_equal (fun u => u tt)); rewrite /half /vscale /basis /=; lra.
have := h _ _ one one half hne; have [-> ->] := half_norms.
rewrite causal_distance half_score half_distance root_unit.
have -> : (/ 2 + / 2 * tanh (/ 2 / 2)) * / 2 / / 2 - / 2 = / 2 * tanh (/ 2 / 2) by field.
have h0 := tanh_gt0 (x := / 2 / 2) ltac:(lra).
have : tanh (1 * 1 * / 2 / (4 * 1)) < tanh (/ 2 / 2) by apply: tanh_increasing; lra.
by rewrite Rabs_pos_eq; lra.
Qed.
End Neighbors.
