#include "compile/trainer_kernels.h"

#include <cstddef>
#include <numeric>
#include <span>

#include "graph/axis_part.h"

namespace trireme {
namespace {

// Our single kernel and the kernels that do the same one after the other, in bytes of a number.
struct Apart {
  double ours = 0.0;
  double theirs = 0.0;
  int calls = 0;
};

// A cast to fp32 (6), the product of complex numbers (8), and a cast back (6).
constexpr Apart kRopeApart{4.0, 20.0, 3};
// The function of the gate (4) and its product with the other half (6). Backward: the gradients of
// both factors (6 each), and that of the function (6).
constexpr Apart kGateForward{6.0, 10.0, 2};
constexpr Apart kGateBackward{10.0, 18.0, 3};
// A cast to fp32 (6), the square (8), its mean (4), the product with its root (8), a cast back (6)
// and the product with the gain (4).
constexpr Apart kNormForward{4.0, 36.0, 6};
// The gradient of the last product (4), a cast (6), the gradients of the product with the root (8
// and 12, which are summed: 4), of the square (8), their sum (12), and a cast back (6).
constexpr Apart kNormBackward{6.0, 60.0, 9};
// The product of gradient and normed value (6) and its sum (2).
constexpr Apart kNormGain{4.0, 8.0, 2};

void run_apart(HalfWork& half, const Apart& apart) {
  half.bytes *= apart.theirs / apart.ours;
  half.calls = apart.calls;
}

// Splits the first of the products into one for each of these numbers of rows or columns.
void split_product(std::vector<Product>& products, int64_t Product::*side,
                   const std::vector<int64_t>& counts) {
  const Product joined = products.front();
  products.erase(products.begin());
  for (const int64_t count : counts) {
    products.push_back(joined);
    products.back().*side = count;
  }
}

// One product for every output. Each makes a gradient of the input in B, and a kernel adds that of
// every product but the first: it reads two and writes their sum.
void run_products_apart(OpWork& work, const std::vector<int64_t>& columns, int64_t element_bytes) {
  const Product& to_input = work.input_grad.products.front();
  const double inputs = double(to_input.m) * double(to_input.n);
  const size_t num_sums = columns.size() - 1;
  work.input_grad.bytes += 3.0 * inputs * double(element_bytes) * double(num_sums);
  work.input_grad.calls += int(num_sums);
  split_product(work.forward.products, &Product::n, columns);
  split_product(work.input_grad.products, &Product::k, columns);
  // Products of weights that are not trained are not made.
  const std::vector<Product>& of_weights = work.weight_grad.products;
  const int64_t all = std::accumulate(columns.begin(), columns.end(), int64_t{0});
  const bool is_joined = of_weights.size() == 1 && of_weights.front().m == all;
  if (is_joined) split_product(work.weight_grad.products, &Product::m, columns);
}

std::vector<int64_t> columns_of_outputs(const Graph& placed, const Op& op,
                                        const ModelShard& shard) {
  std::vector<int64_t> columns;
  for (const ValueId id : op.outputs) {
    columns.push_back(part_of(placed.values[size_t(id)].column_dims(), shard).count);
  }
  return columns;
}

}  // namespace

std::vector<double> shares_of_whole_layer(const Graph& placed, bool stops_early) {
  std::vector<double> shares(placed.ops.size(), 1.0);
  // The last value that B needs is the input of the last product. So neither this product nor the
  // sums behind it are made again.
  for (size_t i = placed.ops.size(); stops_early && i-- > 0;) {
    const OpKind kind = placed.ops[i].kind;
    if (kind == OpKind::Linear) shares[i] = 0.0;
    if (kind != OpKind::Add && kind != OpKind::Redistribute) break;
    shares[i] = 0.0;
  }
  return shares;
}

std::vector<double> shares_of_every_other_product(const Graph& placed, const ModelShard& shard) {
  std::vector<double> shares = shares_of_whole_layer(placed, true);
  int num_products = 0;
  for (size_t i = 0; i < placed.ops.size(); ++i) {
    const Op& op = placed.ops[i];
    if (op.kind == OpKind::Attention) shares[i] = 0.0;
    if (op.kind != OpKind::Linear) continue;
    // Outputs that stand side by side are a product each.
    double again = 0.0, all = 0.0;
    for (const int64_t columns : columns_of_outputs(placed, op, shard)) {
      all += double(columns);
      if (++num_products % 2 == 0) again += double(columns);
    }
    shares[i] *= again / all;
  }
  return shares;
}

void run_ops_apart(const Graph& placed, const ModelShard& shard, const StageShape& shape,
                   const TrainerPractice& practice, std::vector<OpWork>& works) {
  const bool has_rms_norm = shard.norm == NormType::RmsNorm;
  for (size_t i = 0; i < works.size(); ++i) {
    const Op& op = placed.ops[i];
    OpWork& work = works[i];
    const bool is_joined = op.kind == OpKind::Linear && op.outputs.size() > 1;
    if (practice.runs_products_apart && is_joined) {
      run_products_apart(work, columns_of_outputs(placed, op, shard), size_of(shape.compute));
    }
    const bool is_gate = op.kind == OpKind::Activation && op.inputs.size() == 2;
    if (practice.runs_ops_apart && op.kind == OpKind::Rope) {
      run_apart(work.forward, kRopeApart);
      run_apart(work.input_grad, kRopeApart);
    } else if (practice.runs_ops_apart && is_gate) {
      run_apart(work.forward, kGateForward);
      run_apart(work.input_grad, kGateBackward);
    } else if (practice.runs_norms_apart && has_rms_norm && op.kind == OpKind::Norm) {
      run_apart(work.forward, kNormForward);
      run_apart(work.input_grad, kNormBackward);
      run_apart(work.weight_grad, kNormGain);
    }
  }
}

}  // namespace trireme
