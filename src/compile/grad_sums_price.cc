#include "compile/grad_sums_price.h"

#include <map>

#include "compile/compile_rank.h"
#include "compile/kernel_price.h"
#include "graph/param_table.h"

namespace trireme {
namespace {

// In one tree of sums a kernel reads two partial sums and writes one; else a product reads what it
// adds to. The leaves of a micro-batch are joined likewise. `rank` stands at the place of the
// stage.
double grad_sums_s(const RunPlan& plan, const RankPlan& rank, const StageSpec& stage,
                   const Hardware& hardware) {
  const double microbatches = double(plan.num_microbatches);
  const double leaves = microbatches * double(rank.shape.leaves);
  if (leaves <= 1.0 || !hardware.practice.fuses_kernels) return 0.0;
  double elements = 0.0;
  for (const ParamSpec& param : local_param_table(plan.model, stage, rank.shape)) {
    if (param.is_trained) elements += double(param.shape.num_elements());
  }
  if (rank.zero.shards_grads()) elements /= double(rank.zero.degree);
  const double bytes = elements * double(size_of(plan.shape.grad));
  const double sums = (leaves - 1.0) / microbatches;
  if (plan.mode == AccumulateMode::Layout) return sums * price_memory(3.0 * bytes, 0, hardware);
  return hardware.is_processor() ? sums * bytes / hardware.matmul_bytes_per_s : 0.0;
}

}  // namespace

std::vector<double> price_grad_sums(const RunPlan& plan, const std::vector<StageSpec>& stages,
                                    const Hardware& hardware) {
  std::vector<double> sums_s;
  std::map<std::vector<int64_t>, double> known;  // (content, degrees)
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const int place = plan.place_of(int(stage));
    const PlaceDegrees degrees = plan.mesh.at(place);
    std::vector<int64_t> key = content_of(plan.model, stages[stage]);
    key.insert(key.end(), {degrees.tp, degrees.dp});
    const auto [alike, is_new] = known.try_emplace(std::move(key));
    if (is_new) {
      RankPlan rank;
      move_to(rank, position_of(plan.mesh, {.pp = place}), plan);
      alike->second = grad_sums_s(plan, rank, stages[stage], hardware);
    }
    sums_s.push_back(alike->second);
  }
  return sums_s;
}

}  // namespace trireme
