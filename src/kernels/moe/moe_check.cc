#include "kernels/argument_checks.h"
#include "kernels/moe/moe.h"

namespace trireme {
namespace {

bool is_between(const int32_t* values, int64_t count, int64_t least, int64_t below) {
  bool inside = true;
  for (int64_t i = 0; i < count; ++i) inside &= values[i] >= least && values[i] < below;
  return inside;
}

bool is_between(const MatrixRef& x, int64_t least, int64_t below) {
  bool inside = true;
  for (int64_t row = 0; row < x.rows; ++row) {
    inside &= is_between(x.row<int32_t>(row), x.cols, least, below);
  }
  return inside;
}

void check_like(const char* name, const MatrixRef& x, const MatrixRef& model, DType dtype) {
  check_matrix(name, x, model.rows, model.cols, dtype);
}

// Checks that the rows in use are within `rows`.
void check_begin(const TensorRef& begin_E, int64_t rows) {
  check_tensor("begin", begin_E, begin_E.num_elements(), DType::I32);
  check_argument(begin_E.num_elements() >= 1, "rows have an end");
  const int32_t* begin = begin_E.as<int32_t>();
  check_argument(is_between(begin, begin_E.num_elements(), 0, rows + 1),
                 "every expert's rows lie among the rows");
}

}  // namespace

void check_route(const RouteArgs& args) {
  const MatrixRef& score_TE = args.score_TE;
  const int64_t T = score_TE.rows, E = score_TE.cols, k = args.expert_Tk.cols;
  check_like("score", score_TE, score_TE, DType::F32);
  check_argument(args.groups >= 1 && E % args.groups == 0, "experts form equal groups");
  check_argument(args.top_groups >= 1 && args.top_groups <= args.groups, "top_groups of groups");
  check_argument(k >= 1 && k <= E / args.groups * args.top_groups, "a token has k experts");
  check_matrix("expert", args.expert_Tk, T, k, DType::I32);
  check_matrix("weight", args.weight_Tk, T, k, DType::F32);
  check_tensor("lse", args.lse_T, T, DType::F32);
  check_argument(!args.is_chosen || is_between(args.expert_Tk, 0, E), "a choice is of experts");
  if (!args.bias_E) return;
  check_argument(is_compute_dtype(args.bias_E.dtype), "the bias is fp32, bf16 or fp16");
  check_tensor("bias", args.bias_E, E, args.bias_E.dtype);
}

void check_route_backward(const RouteBackwardArgs& args) {
  const int64_t T = args.score_TE.rows, E = args.score_TE.cols, k = args.expert_Tk.cols;
  check_like("score", args.score_TE, args.score_TE, DType::F32);
  check_matrix("expert", args.expert_Tk, T, k, DType::I32);
  check_matrix("weight", args.weight_Tk, T, k, DType::F32);
  check_matrix("row", args.row_Tk, T, k, DType::I32);
  check_tensor("lse", args.lse_T, T, DType::F32);
  check_tensor("dweight", args.dweight_A, args.dweight_A.num_elements(), DType::F32);
  check_matrix("count", args.count_nE, args.count_nE.rows, E, DType::I32);
  check_argument(args.count_nE.rows >= 1 && T % args.count_nE.rows == 0,
                 "sequences are equally long");
  check_argument(args.z == 0.0f || args.score == RouterScore::Softmax,
                 "only the softmax has a z loss");
  check_float("dlogits", args.dlogits_TE);
  check_like("dlogits", args.dlogits_TE, args.score_TE, args.dlogits_TE.dtype);
  check_argument(is_between(args.expert_Tk, 0, E), "every visit is to an expert");
  check_argument(is_between(args.row_Tk, -1, args.dweight_A.num_elements()),
                 "every visit has a row or none");
}

void check_count_visits(const CountVisitsArgs& args) {
  const int64_t T = args.expert_Tk.rows, stretches = args.count_cE.rows, E = args.count_cE.cols;
  check_matrix("expert", args.expert_Tk, T, args.expert_Tk.cols, DType::I32);
  check_matrix("count", args.count_cE, stretches, E, DType::I32);
  check_argument(stretches >= 1 && T % stretches == 0, "stretches are equally long");
  check_argument(is_between(args.expert_Tk, 0, E), "every visit is to an expert");
}

void check_sort_visits(const SortVisitsArgs& args) {
  const int64_t T = args.expert_Tk.rows, k = args.expert_Tk.cols, E = args.count_nE.cols;
  check_matrix("expert", args.expert_Tk, T, k, DType::I32);
  check_matrix("weight", args.weight_Tk, T, k, DType::F32);
  check_matrix("row", args.row_Tk, T, k, DType::I32);
  check_matrix("count", args.count_nE, args.count_nE.rows, E, DType::I32);
  check_argument(args.count_nE.rows >= 1 && T % args.count_nE.rows == 0,
                 "sequences are equally long");
  check_tensor("begin", args.begin_E, E + 1, DType::I32);
  check_tensor("load", args.load_E, E + 1, DType::I32);
  const int64_t A = args.token_A.num_elements();
  check_tensor("token", args.token_A, A, DType::I32);
  check_tensor("weight of rows", args.weight_A, A, DType::F32);
  check_argument(args.capacity >= 1, "an expert takes at least one token");
  check_if_present("before", args.before_cE, args.before_cE.rows, E, DType::I32);
  check_argument(!args.before_cE || (args.before_cE.rows >= 1 && T % args.before_cE.rows == 0),
                 "stretches are equally long");
  check_argument(A >= T * k || A >= E * args.capacity, "every visit that is taken has a row");
  check_argument(is_between(args.expert_Tk, 0, E), "every visit is to an expert");
}

void check_gather_rows(const GatherRowsArgs& args) {
  check_float("x", args.x_TC);
  const int64_t A = args.token_A.num_elements();
  check_tensor("token", args.token_A, A, DType::I32);
  check_matrix("y", args.y_AC, A, args.x_TC.cols, args.x_TC.dtype);
  check_begin(args.begin_E, A);
  const int32_t used = args.begin_E.as<int32_t>()[args.begin_E.num_elements() - 1];
  check_argument(is_between(args.token_A.as<int32_t>(), used, 0, args.x_TC.rows),
                 "every row has a token");
}

void check_combine_rows(const CombineRowsArgs& args) {
  check_float("x", args.x_AC);
  const int64_t T = args.row_Tk.rows;
  check_matrix("row", args.row_Tk, T, args.row_Tk.cols, DType::I32);
  check_matrix("y", args.y_TC, T, args.x_AC.cols, args.x_AC.dtype);
  check_if_present("residual", args.residual_TC, T, args.x_AC.cols, args.x_AC.dtype);
  check_argument(is_between(args.row_Tk, -1, args.x_AC.rows), "every visit has a row or none");
}

void check_expert_activation(const ExpertActivationArgs& args) {
  const MatrixRef& y_AF = args.y_AF;
  check_float("u", args.u_AU);
  check_matrix("u", args.u_AU, y_AF.rows, 2 * y_AF.cols, y_AF.dtype);
  check_tensor("weight", args.weight_A, y_AF.rows, DType::F32);
  check_begin(args.begin_E, y_AF.rows);
}

void check_expert_activation_backward(const ExpertActivationBackwardArgs& args) {
  const MatrixRef& dy_AF = args.dy_AF;
  check_float("dy", dy_AF);
  check_matrix("u", args.u_AU, dy_AF.rows, 2 * dy_AF.cols, dy_AF.dtype);
  check_matrix("du", args.du_AU, dy_AF.rows, 2 * dy_AF.cols, dy_AF.dtype);
  check_tensor("weight", args.weight_A, dy_AF.rows, DType::F32);
  check_tensor("dweight", args.dweight_A, dy_AF.rows, DType::F32);
  check_begin(args.begin_E, dy_AF.rows);
}

}  // namespace trireme
