#include "models/init.h"

#include <algorithm>

namespace trireme {
namespace {

void fill(Ctx& ctx, const ParamSpec& param, const TensorRef& x_N, uint64_t seed) {
  switch (param.init) {
    case ParamInit::Normal:
      ctx.kernels.fill_normal(ctx.stream, {rng_key(seed, "init/" + param.name),
                                           static_cast<float>(param.stddev), 0, x_N});
      return;
    case ParamInit::Zero:
      ctx.kernels.zero(ctx.stream, {x_N});
      return;
    case ParamInit::One:
      std::fill_n(x_N.as<float>(), x_N.num_elements(), 1.0f);
      return;
  }
}

}  // namespace

void init_params(Ctx& ctx, const std::vector<ParamSpec>& params, const Frame& param_frame,
                 const Frame& optimizer_state, uint64_t seed) {
  for (const ParamSpec& param : params) {
    const TensorRef param_ref = param_frame.at(param.name);
    const Shape flat{param_ref.num_elements()};
    const TensorRef param_N{param_ref.data, param_ref.dtype, flat};
    const TensorRef master = optimizer_state.find("master/" + param.name);
    const TensorRef master_N = master ? TensorRef{master.data, DType::F32, flat} : param_N;
    fill(ctx, param, master_N, seed);
    if (master) ctx.kernels.convert(ctx.stream, {master_N, param_N});
  }
}

}  // namespace trireme
