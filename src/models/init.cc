#include "models/init.h"

#include <algorithm>

namespace trireme {
namespace {

// Normal numbers, run by run of the elements that lie together in the whole parameter.
void fill_normal(Ctx& ctx, const ParamSpec& param, const ParamLayout* layout, int64_t first,
                 const TensorRef& x_N, uint64_t seed) {
  const RngKey key = rng_key(seed, "init/" + param.name);
  const float stddev = static_cast<float>(param.stddev);
  const int64_t count = x_N.num_elements();
  const BoxElements box = layout != nullptr ? box_elements(*layout) : BoxElements{};
  for (int64_t done = 0; done < count;) {
    const int64_t run = box.run(first + done, count - done);
    ctx.kernels.fill_normal(ctx.stream, {key,
                                         stddev,
                                         box.in_whole(first + done),
                                         {x_N.as<float>() + done, DType::F32, Shape{run}}});
    done += run;
  }
}

}  // namespace

void init_param(Ctx& ctx, const ParamSpec& param, const ParamLayout* layout, int64_t first,
                const TensorRef& x_N, uint64_t seed) {
  switch (param.init) {
    case ParamInit::Normal:
      fill_normal(ctx, param, layout, first, x_N, seed);
      return;
    case ParamInit::Zero:
      ctx.kernels.zero(ctx.stream, {x_N});
      return;
    case ParamInit::Constant:
      std::fill_n(x_N.as<float>(), x_N.num_elements(), static_cast<float>(param.value));
      return;
    case ParamInit::One:
      std::fill_n(x_N.as<float>(), x_N.num_elements(), 1.0f);
      return;
  }
}

void init_params(Ctx& ctx, const std::vector<ParamSpec>& params, const Frame& param_frame,
                 const Frame& optimizer_state, uint64_t seed,
                 const std::vector<ParamLayout>& layouts) {
  TRIREME_CHECK(layouts.empty() || layouts.size() == params.size(), "a layout of every parameter");
  const auto flat = [](TensorRef tensor) {
    tensor.shape = Shape{tensor.num_elements()};
    return tensor;
  };
  for (size_t i = 0; i < params.size(); ++i) {
    const TensorRef param_N = flat(param_frame.at(params[i].name));
    const TensorRef master = optimizer_state.find("master/" + params[i].name);
    std::vector<float> values;  // of a narrow parameter without a master
    TensorRef in_f32 = master ? flat(master) : param_N;
    if (in_f32.dtype != DType::F32) {
      values.resize(size_t(param_N.num_elements()));
      in_f32 = {values.data(), DType::F32, param_N.shape};
    }
    init_param(ctx, params[i], layouts.empty() ? nullptr : &layouts[i], 0, in_f32, seed);
    if (in_f32.data != param_N.data) ctx.kernels.convert(ctx.stream, {in_f32, param_N});
  }
}

}  // namespace trireme
