#pragma once

#include "nn/ctx.h"
#include "nn/frame.h"
#include "spec/model_layout.h"

namespace trireme {

// Writes the initial parameters, and their fp32 masters where the state has them. An element's
// value depends on the seed, the parameter's name and the element's index in the whole parameter
// alone. `layouts`: of the params, in their order; empty: they are whole.
void init_params(Ctx& ctx, const std::vector<ParamSpec>& params, const Frame& param_frame,
                 const Frame& optimizer_state, uint64_t seed,
                 const std::vector<ParamLayout>& layouts = {});

}  // namespace trireme
