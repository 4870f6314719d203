#include "optim/muon_update.h"

#include <algorithm>
#include <cmath>

#include "schema/newton_schulz.h"

namespace trireme {
namespace {

// The part of a whole matrix that a rank of tp holds.
MatrixRef part_in(const MatrixRef& whole, const WholeMatrix::Part& part) {
  return cols_of(rows_of(whole, part.row, part.rows), part.col, part.cols);
}

MatrixRef dense(const TensorRef& part_N, const WholeMatrix::Part& part) {
  return {part_N.data, part_N.dtype, part.rows, part.cols, part.cols};
}

}  // namespace

MuonMatrix::MuonMatrix(const WholeMatrix& matrix, DType compute, void* region)
    : matrix_(matrix), counts_(matrix.counts()), tensors_(matrix, compute, region) {}

// The own part of the update stands at the beginning of x. The parts of all ranks are gathered one
// behind the other in next.
CollectiveArgs MuonMatrix::gather(int rank) const {
  return {.collective = Collective::AllGather,
          .in = tensors_.of_x(counts_[size_t(rank)]),
          .out = tensors_.of_next(matrix_.rows * matrix_.cols),
          .counts = counts_};
}

void MuonMatrix::reserve(Group& tp) const {
  if (matrix_.is_gathered()) tp.reserve(gather(tp.rank()));
}

void MuonMatrix::assemble(Ctx& ctx) const {
  ctx.tp.run(gather(ctx.tp.rank()));
  int64_t first = 0;
  for (const WholeMatrix::Part& part : matrix_.parts) {
    if (!part.is_sent) continue;
    const TensorRef sent_N{
        static_cast<char*>(tensors_.next.data) + first * size_of(tensors_.next.dtype),
        tensors_.next.dtype, Shape{part.num_elements()}};
    ctx.kernels.copy_matrix(ctx.stream, {dense(sent_N, part), part_in(tensors_.x, part)});
    first += part.num_elements();
  }
}

TensorRef MuonMatrix::own_part(Ctx& ctx, const MatrixRef& result) const {
  if (!matrix_.is_gathered()) return flat(result);
  const WholeMatrix::Part& own = matrix_.parts[size_t(ctx.tp.rank())];
  const MatrixRef& free = result.data == tensors_.x.data ? tensors_.next : tensors_.x;
  const TensorRef part_N{free.data, free.dtype, Shape{own.num_elements()}};
  ctx.kernels.copy_matrix(ctx.stream, {part_in(result, own), dense(part_N, own)});
  return part_N;
}

void MuonMatrix::update(Ctx& ctx, const Step& step) const {
  ctx.kernels.momentum(ctx.stream, {.grad_N = step.grad_N,
                                    .momentum_N = step.momentum_N,
                                    .update_N = tensors_.of_x(step.grad_N.num_elements()),
                                    .momentum = step.momentum,
                                    .grad_scale = step.grad_scale,
                                    .rounding = step.rounding});
  if (matrix_.is_gathered()) assemble(ctx);
  const TensorRef update_N = own_part(ctx, orthogonalize(ctx, tensors_));
  const double scale = kMuonUpdateRms * std::sqrt(double(std::max(matrix_.rows, matrix_.cols)));
  ctx.kernels.sgd(ctx.stream, {.grad_N = update_N,
                               .master_N = step.master_N,
                               .momentum_N = {},
                               .param_N = step.param_N,
                               .lr = step.lr,
                               .weight_decay = step.weight_decay,
                               .grad_scale = float(scale),
                               .rounding = step.rounding});
}

}  // namespace trireme
