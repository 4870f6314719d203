#include "models/init.h"

#include <algorithm>

namespace trireme {
namespace {

// Normal numbers of a box of a parameter, run by run of its elements in the whole one.
void fill_normal(Ctx& ctx, const ParamSpec& param, const ParamLayout* layout, const TensorRef& x_N,
                 uint64_t seed) {
  const RngKey key = rng_key(seed, "init/" + param.name);
  const float stddev = static_cast<float>(param.stddev);
  const bool is_matrix = layout != nullptr && layout->global.rank() == 2;
  const int64_t row_elements = is_matrix ? layout->global[1] : x_N.num_elements();
  const int64_t first_row = is_matrix ? layout->begin[0] : 0;
  const int64_t first_col = is_matrix ? layout->begin[1] : 0;
  const bool has_whole_rows = !is_matrix || layout->extent[1] == row_elements;
  const int64_t run = has_whole_rows ? x_N.num_elements() : layout->extent[1];
  for (int64_t i = 0; i * run < x_N.num_elements(); ++i) {
    const int64_t first_element = (first_row + i) * row_elements + first_col;
    ctx.kernels.fill_normal(
        ctx.stream,
        {key, stddev, first_element, {x_N.as<float>() + i * run, DType::F32, Shape{run}}});
  }
}

void fill(Ctx& ctx, const ParamSpec& param, const ParamLayout* layout, const TensorRef& x_N,
          uint64_t seed) {
  switch (param.init) {
    case ParamInit::Normal:
      fill_normal(ctx, param, layout, x_N, seed);
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
                 const Frame& optimizer_state, uint64_t seed,
                 const std::vector<ParamLayout>& layouts) {
  TRIREME_CHECK(layouts.empty() || layouts.size() == params.size(), "a layout of every parameter");
  for (size_t i = 0; i < params.size(); ++i) {
    const ParamSpec& param = params[i];
    const TensorRef param_ref = param_frame.at(param.name);
    const Shape flat{param_ref.num_elements()};
    const TensorRef param_N{param_ref.data, param_ref.dtype, flat};
    const TensorRef master = optimizer_state.find("master/" + param.name);
    const TensorRef master_N = master ? TensorRef{master.data, DType::F32, flat} : param_N;
    fill(ctx, param, layouts.empty() ? nullptr : &layouts[i], master_N, seed);
    if (master) ctx.kernels.convert(ctx.stream, {master_N, param_N});
  }
}

}  // namespace trireme
