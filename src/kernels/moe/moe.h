#pragma once

#include "device/stream.h"
#include "tensor/matrix.h"

namespace trireme {

// Mixtures of experts. Legend: T tokens, n sequences, E experts, k experts of a token, A rows (the
// visits of tokens to experts, sorted by expert and then by token), C d_model, F width of an
// expert, U = 2 F. Rows from begin_E[E] on are neither read nor written.

enum class RouterScore {
  Softmax,  // over the experts
  Sigmoid,  // of every logit
};

// Scores; the k best experts of every token, best first, a tie to the lower one; their weights,
// which are their scores over the sum of them.
struct RouteArgs {
  RouterScore score = RouterScore::Softmax;
  int64_t groups = 1;  // neighbouring experts; a token stays inside the top_groups best of them,
  int64_t top_groups = 1;  // by the sum of their two best, a tie to the lower one
  MatrixRef score_TE;      // fp32: logits; the scores are written over them
  TensorRef bias_E;        // absent, fp32, bf16 or fp16: added to scores for the choice alone
  TensorRef lse_T;         // fp32, written: the logarithm of the sum of the logits' exponentials
  MatrixRef expert_Tk;     // int32, written
  MatrixRef weight_Tk;     // fp32, written
  bool is_chosen = false;  // expert_Tk is read instead: the choice is made
};
void route_ref(Stream& stream, const RouteArgs& args);
void check_route(const RouteArgs& args);  // throws ContractError

// The gradient of sum(weights * dweight) + balance sum_te(count_ne share_te) + z sum_t(lse_t^2),
// where n is t's sequence and share_te the scores of a token over their sum.
struct RouteBackwardArgs {
  RouterScore score = RouterScore::Softmax;
  MatrixRef score_TE, expert_Tk, weight_Tk;
  TensorRef lse_T;
  MatrixRef row_Tk;     // int32: where dweight has a visit; -1: it was dropped
  TensorRef dweight_A;  // fp32
  MatrixRef count_nE;   // int32
  float balance = 0.0f;
  float z = 0.0f;        // softmax only
  MatrixRef dlogits_TE;  // fp32, bf16 or fp16, written
};
void route_backward_ref(Stream& stream, const RouteBackwardArgs& args);
void check_route_backward(const RouteBackwardArgs& args);  // throws ContractError

// How often the tokens of every stretch visit every expert; stretches are equally long.
struct CountVisitsArgs {
  MatrixRef expert_Tk;  // int32, each in [0, E)
  MatrixRef count_cE;   // int32, written
};
void count_visits_ref(Stream& stream, const CountVisitsArgs& args);
void check_count_visits(const CountVisitsArgs& args);  // throws ContractError

// Where every visit lies among the rows. An expert takes `capacity` tokens, the first ones; later
// visits are dropped: they have no row and count in load_E[E].
struct SortVisitsArgs {
  MatrixRef expert_Tk;  // int32, each in [0, E)
  MatrixRef weight_Tk;  // fp32
  int64_t capacity = 0;
  MatrixRef row_Tk;    // int32, written; -1: dropped
  TensorRef token_A;   // int32, written
  TensorRef weight_A;  // fp32, written
  TensorRef begin_E;   // int32 [E + 1], written: the first row of every expert, and the end
  MatrixRef count_nE;  // int32, written: visits of every sequence, dropped ones too
  TensorRef load_E;    // int32 [E + 1], written: their sums, and how many were dropped
  // Absent, or int32: to every expert before each of equally long stretches of these tokens, where
  // some are elsewhere.
  MatrixRef before_cE = {};
};
void sort_visits_ref(Stream& stream, const SortVisitsArgs& args);
void check_sort_visits(const SortVisitsArgs& args);  // throws ContractError

// y_a = x of row a's token.
struct GatherRowsArgs {
  MatrixRef x_TC;  // fp32, bf16 or fp16
  TensorRef token_A;
  TensorRef begin_E;
  MatrixRef y_AC;  // written
};
void gather_rows_ref(Stream& stream, const GatherRowsArgs& args);
void check_gather_rows(const GatherRowsArgs& args);  // throws ContractError

// y_t = residual_t + the sum of t's rows in the order of row_Tk, in fp32, rounded once.
struct CombineRowsArgs {
  MatrixRef x_AC;  // fp32, bf16 or fp16
  MatrixRef row_Tk;
  MatrixRef residual_TC;  // absent; may be y
  MatrixRef y_TC;         // written
};
void combine_rows_ref(Stream& stream, const CombineRowsArgs& args);
void check_combine_rows(const CombineRowsArgs& args);  // throws ContractError

// y_a = weight_a silu(gate_a) up_a, where u has gate and up side by side.
struct ExpertActivationArgs {
  MatrixRef u_AU;      // fp32, bf16 or fp16
  TensorRef weight_A;  // fp32
  TensorRef begin_E;
  MatrixRef y_AF;  // written
};
void expert_activation_ref(Stream& stream, const ExpertActivationArgs& args);
void check_expert_activation(const ExpertActivationArgs& args);  // throws ContractError

struct ExpertActivationBackwardArgs {
  MatrixRef dy_AF, u_AU;
  TensorRef weight_A;
  TensorRef begin_E;
  MatrixRef du_AU;      // written
  TensorRef dweight_A;  // fp32, written
};
void expert_activation_backward_ref(Stream& stream, const ExpertActivationBackwardArgs& args);
void check_expert_activation_backward(const ExpertActivationBackwardArgs& args);

}  // namespace trireme
