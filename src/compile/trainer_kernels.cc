#include "compile/trainer_kernels.h"

#include <cstddef>
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
  const auto columns = [&](ValueId id) {
    return double(part_of(placed.values[size_t(id)].column_dims(), shard).count);
  };
  int num_products = 0;
  for (size_t i = 0; i < placed.ops.size(); ++i) {
    const Op& op = placed.ops[i];
    if (op.kind == OpKind::Attention) shares[i] = 0.0;
    if (op.kind != OpKind::Linear) continue;
    // Outputs that stand side by side are a product each.
    double again = 0.0, all = 0.0;
    for (const ValueId output : op.outputs) {
      all += columns(output);
      if (++num_products % 2 == 0) again += columns(output);
    }
    shares[i] *= again / all;
  }
  return shares;
}

void run_ops_apart(const Graph& placed, const TrainerPractice& practice, bool has_rms_norm,
                   std::vector<OpWork>& works) {
  for (size_t i = 0; i < works.size(); ++i) {
    const Op& op = placed.ops[i];
    OpWork& work = works[i];
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
