#pragma once

#include <vector>

#include "graph/param_layout.h"
#include "graph/param_table.h"
#include "nn/ctx.h"
#include "nn/frame.h"

namespace trireme {

// Writes elements [first, first + x_N's) of the initial value of what this rank holds of a
// parameter. An element's value depends on the seed, the parameter's name and the element's index
// in the whole parameter alone. `layout` null: this rank holds it whole. x_N is fp32.
void init_param(Ctx& ctx, const ParamSpec& param, const ParamLayout* layout, int64_t first,
                const TensorRef& x_N, uint64_t seed);

// All of a stage that holds its parameters in one piece, and their fp32 masters where the state has
// them. `layouts`: of the params, in their order; empty: they are whole.
void init_params(Ctx& ctx, const std::vector<ParamSpec>& params, const Frame& param_frame,
                 const Frame& optimizer_state, uint64_t seed,
                 const std::vector<ParamLayout>& layouts = {});

}  // namespace trireme
