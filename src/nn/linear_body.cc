#include "nn/linear_body.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "graph/backward_reads.h"

namespace trireme {
namespace {

// Columns of what stands side by side in y, where slices of each are summed for themselves.
std::array<int64_t, 3> blocks_of(const OpBinding& b) {
  std::array<int64_t, 3> blocks = {};
  if (b.op().slices.backward == 0) return blocks;
  TRIREME_CHECK(b.memory().outputs.size() <= blocks.size(), "three products are one at most");
  for (size_t i = 0; i < b.memory().outputs.size(); ++i) blocks[i] = b.memory().outputs[i].cols;
  return blocks;
}

Linear linear_of(const OpBinding& b) {
  const OpSlices& slices = b.op().slices;
  const QuantizedWeight quantized = b.quantized_weight();
  return {{quantized ? MatrixRef{} : b.weight(), b.vector(), quantized},
          b.slice_sum(slices.forward),
          b.slice_sum(slices.backward),
          blocks_of(b)};
}

}  // namespace

LinearBody::LinearBody(const OpBinding& b)
    : model_(b.model()),
      linear_(linear_of(b)),
      adapters_(b),
      sum_(SumOnResidual::bind(b)),
      enter_(b.op().enter),
      enter_edge_{b.model().residual, enter_ && enter_->in_pieces, sum_.edge.sum_RC},
      is_summed_(b.op().leave || b.output_value().placement.tp == Placement::partial()),
      adds_to_output_(b.op().addend >= 0),
      reads_x_again_(weight_grad_reads_input(b.graph(), b.op())),
      x_TC_(b.input()),
      x_full_TC_(b.at(b.memory().gathered_input)),
      y_TF_(b.at(b.memory().partial)),
      dy_TF_(b.at(b.memory().gathered_grad)),
      dx_TC_(b.input_grad()),
      dx_addend_TC_(b.input_grad_addend()),
      dx_full_TC_(b.at(b.memory().gathered_input_grad)),
      dw_(b.matrix_grad_parts(b.first_param(true))),
      db_(b.vector_grad_parts()) {}

// Rows of y.
void LinearBody::multiply(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m, int64_t begin,
                          int64_t count) const {
  const MatrixRef x_TC = m(x_full_TC_), y_TF = m(y_TF_);
  if (is_summed_) {
    multiply_addends(ctx, info, m, begin, count);
  } else {
    linear_.forward_rows(ctx, x_TC, y_TF, begin, count);
  }
  adapters_.add_forward(ctx, m, rows_of(x_TC, begin, count), rows_of(y_TF, begin, count));
}

// Of a sum over the ranks, each has its own rows to which it adds bias and residual.
void LinearBody::multiply_addends(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
                                  int64_t begin, int64_t count) const {
  const MatrixRef x_TC = m(x_full_TC_), y_TF = m(y_TF_);
  Linear without_bias = linear_;
  without_bias.params.b_F = {};
  const TokenRows own = own_tokens(ctx.tp, model_.residual, y_TF.rows);
  const MatrixRef residual_TC = sum_.residual(info, m);
  const auto rows = [&](const Linear& by, int64_t first, int64_t end, bool is_own) {
    if (first >= end) return;
    const MatrixRef y = rows_of(y_TF, first, end - first);
    MatrixRef addend = adds_to_output_ ? y : MatrixRef{};
    if (is_own && residual_TC) addend = rows_of(residual_TC, first - own.begin, end - first);
    by.forward(ctx, rows_of(x_TC, first, end - first), y, addend);
  };
  const int64_t end = begin + count;
  const int64_t own_begin = std::clamp(own.begin, begin, end);
  const int64_t own_end = std::clamp(own.end(), own_begin, end);
  rows(without_bias, begin, own_begin, false);
  rows(linear_, own_begin, own_end, true);
  rows(without_bias, own_end, end, false);
}

void LinearBody::forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  const auto multiply_rows = [&](int64_t begin, int64_t count) {
    multiply(ctx, info, m, begin, count);
  };
  if (enter_) {
    enter_edge_.gather_and_multiply(ctx, enter_->change, m(x_TC_), m(x_full_TC_), multiply_rows);
  } else {
    sum_.forward(ctx, info, m, multiply_rows);
  }
}

void LinearBody::backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  const MatrixRef dy_TF = m(dy_TF_), dx_TC = m(dx_full_TC_), addend_TC = m(dx_addend_TC_);
  const auto multiply_rows = [&](int64_t begin, int64_t count) {
    linear_.backward_input(ctx, rows_of(dy_TF, begin, count), rows_of(dx_TC, begin, count),
                           addend_TC ? rows_of(addend_TC, begin, count) : MatrixRef{});
    adapters_.add_backward_input(ctx, m, rows_of(dy_TF, begin, count),
                                 rows_of(dx_TC, begin, count));
  };
  if (enter_) {
    enter_edge_.multiply_and_sum(ctx, backward_of(enter_->change), multiply_rows, dx_TC, m(dx_TC_));
  } else {
    sum_.backward(ctx, info, m, multiply_rows);
  }
}

void LinearBody::backward_weight(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m,
                                 Write write) const {
  const MatrixRef x_full_TC = m(x_full_TC_), dy_TF = m(dy_TF_);
  if (enter_ && reads_x_again_) {
    redistribute_tokens(ctx, enter_->change, x_full_TC.rows, m(x_TC_), x_full_TC);
  }
  for (const MatrixGradPart& part : dw_) {
    const MatrixRef dw_PC = m(part.grad);
    Linear::backward_weight(ctx, cols_of(dy_TF, part.row, dw_PC.rows), x_full_TC, dw_PC, write);
  }
  for (const VectorGradPart& part : db_) {
    const TensorRef db_P = m(part.grad);
    ctx.kernels.column_sum(ctx.stream,
                           {cols_of(dy_TF, part.row, db_P.num_elements()), db_P, write});
  }
  adapters_.backward_weight(ctx, m, dy_TF, x_full_TC, write);
}

}  // namespace trireme
