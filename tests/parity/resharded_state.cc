#include "resharded_state.h"

#include <cstring>

#include "base/check.h"
#include "layout_run.h"
#include "planner/make_plan.h"

namespace trireme {

RunPlan seeded_plan(RunConfig config, uint64_t seed) {
  config.run.seed = seed;
  config.run.reproducible = Reproducible::Fixed;
  Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), plan.error().message);
  return std::move(plan).value();
}

WholeState state_in(const Checkpoint& checkpoint) {
  WholeState all;
  for (const auto& [name, tensor] : checkpoint.index().contents.tensors) {
    std::vector<float>& values = all[name];
    values.resize(size_t(tensor.shape.num_elements()));
    const TensorRequest request{name, tensor.shape, DType::F32, Slice::whole(tensor.shape),
                                values.data()};
    const Status read = checkpoint.read({&request, 1});
    TRIREME_CHECK(read.ok(), read.error().message);
  }
  return all;
}

int64_t num_elements(const WholeState& state) {
  int64_t count = 0;
  for (const auto& [name, values] : state) count += int64_t(values.size());
  return count;
}

int64_t num_equal(const Engine& engine, const WholeState& whole) {
  int64_t count = 0;
  for (const OwnedTensors& owned : engine.owned()) {
    const auto compare = [&](const std::string& name, const TensorRef& tensor_N) {
      const std::vector<float>& values = whole.at(name);
      for (int64_t i = 0; i < owned.count; ++i) {
        const float& expected = values[size_t(global_element(owned, i))];
        if (std::memcmp(&expected, tensor_N.as<float>() + i, sizeof(float)) != 0) return false;
      }
      if (owned.in_checkpoint) count += owned.count;
      return true;
    };
    const std::string& name = owned.spec->name;
    if (!compare(name, owned.master_N) || !compare("exp_avg/" + name, owned.exp_avg_N) ||
        !compare("exp_avg_sq/" + name, owned.exp_avg_sq_N)) {
      return -1;
    }
  }
  return count;
}

}  // namespace trireme
