(* The same proof with the width 2^12 in place of 2^20: the last step must fail, because these tokens
   and heads of that width do not exceed the printed bound. *)
(* True with: 4096 -> 1048576; 64 -> 1024; 512 -> 8192; 32768 -> 8388608 *)
From AttnVerify Require Import Sums Tanh Softmax TotalVariation Vectors Matrices Diameter Attention.
From AttnVerify Require Import SharpLayer Composite CompositeCollapse ManyHeads.
Require Import Psatz FunctionalExtensionality.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Local Open Scope R_scope.

Lemma narrow_violates (K : finType) (k0 : K) : INR #|K| = 4096 ->
  ~ printed_bound (wide_layer k0) (opposite 1 (basis k0)) (fun _ => 0) 1 (sqrt (INR #|K|)).
Proof.
move=> hd [y hy]; have hl := wide_left k0 y.
have hsd : sqrt (INR #|K|) = 64.
  rewrite hd (_ : 4096 = 64 * 64); last by ring.
  by rewrite sqrt_square; lra.
rewrite sub_0 card_bool root_unit hsd in hy; rewrite hsd hd in hl.
set c := composite (sub _ _) in hy hl; have hc : 0 <= c := composite_ge0 _.
have hx := X_composite k0; have hx0 := composite_ge0 (opposite 1 (basis k0)).
set x := composite (opposite 1 (basis k0)) in hy hx hx0.
have ht := tanh_ge_cubic (z := / 4) ltac:(lra).
have h1 : c <= 512 * (x * (x * x)).
  by move: hy; rewrite /= ; lra.
have h2 : c * c <= 32768.
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
