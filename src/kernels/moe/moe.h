#pragma once

#include "device/stream.h"
#include "tensor/matrix.h"

namespace trireme {

// Kernels of mixtures of experts. Legend: T tokens, n sequences, E experts, k experts per token, A
// rows (the visits of tokens to experts, sorted by expert and then by token), C d_model, F width of
// an expert, U = 2 F. Rows from begin_E[E] on are neither read nor written.

enum class RouterScore {
  Softmax,  // over the experts
  Sigmoid,  // of each logit
};

// Computes the scores, the k best experts of every token (best first, the lower index wins a tie),
// and their weights, which are `scale` times their scores divided by the sum of them.
struct RouteArgs {
  RouterScore score = RouterScore::Softmax;
  // Groups of neighbouring experts. A token stays in its top_groups best groups, by the sum of each
  // group's two best scores; the lower index wins a tie.
  int64_t groups = 1;
  int64_t top_groups = 1;
  MatrixRef score_TE;  // fp32: logits; the scores are written over them
  TensorRef bias_E;    // absent, fp32, bf16 or fp16: added to scores only for the choice of experts
  TensorRef lse_T;     // fp32, written: the logarithm of the sum of the logits' exponentials
  MatrixRef expert_Tk;     // int32, written
  MatrixRef weight_Tk;     // fp32, written
  bool is_chosen = false;  // true: the choice is given, expert_Tk is read instead of written
  float scale = 1.0f;
};
void route_ref(Stream& stream, const RouteArgs& args);
void check_route(const RouteArgs& args);  // throws ContractError

// Computes the gradient of sum(weights * dweight) + balance sum_te(count_ne share_te) + z
// sum_t(lse_t^2), where n is the sequence of t and share_te is the score of a token divided by the
// sum of its scores.
struct RouteBackwardArgs {
  RouterScore score = RouterScore::Softmax;
  MatrixRef score_TE, expert_Tk, weight_Tk;
  TensorRef lse_T;
  MatrixRef row_Tk;     // int32: row of the visit in dweight; -1: dropped
  TensorRef dweight_A;  // fp32
  MatrixRef count_nE;   // int32
  float balance = 0.0f;
  float z = 0.0f;        // only for softmax
  MatrixRef dlogits_TE;  // fp32, bf16 or fp16, written
  float scale = 1.0f;    // RouteArgs::scale
};
void route_backward_ref(Stream& stream, const RouteBackwardArgs& args);
void check_route_backward(const RouteBackwardArgs& args);  // throws ContractError

// Counts the visits to every expert from the tokens of every chunk. Chunks have equal length.
struct CountVisitsArgs {
  MatrixRef expert_Tk;  // int32, each in [0, E)
  MatrixRef count_cE;   // int32, written
};
void count_visits_ref(Stream& stream, const CountVisitsArgs& args);
void check_count_visits(const CountVisitsArgs& args);  // throws ContractError

// Assigns a row to every visit. An expert takes the first `capacity` tokens; later visits are
// dropped: they have no row and are counted in load_E[E].
struct SortVisitsArgs {
  MatrixRef expert_Tk;  // int32, each in [0, E)
  MatrixRef weight_Tk;  // fp32
  int64_t capacity = 0;
  MatrixRef row_Tk;    // int32, written; -1: dropped
  TensorRef token_A;   // int32, written
  TensorRef weight_A;  // fp32, written
  TensorRef begin_E;   // int32 [E + 1], written: the first row of every expert, and the end
  MatrixRef count_nE;  // int32, written: visits of every sequence, dropped ones included
  // int32 [E + 1], written: the sums of count_nE, then the number of dropped visits
  TensorRef load_E;
  // Absent, or int32: visits to every expert before each chunk of these tokens, if other ranks have
  // the tokens between. Chunks have equal length.
  MatrixRef before_cE = {};
};
void sort_visits_ref(Stream& stream, const SortVisitsArgs& args);
void check_sort_visits(const SortVisitsArgs& args);  // throws ContractError

// y_a = x of the token of row a.
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

// y_a = weight_a silu(gate_a) up_a; u holds gate and up side by side.
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
