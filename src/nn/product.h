#pragma once

#include "nn/ctx.h"
#include "nn/product_check.h"

namespace trireme {

// Computes a product of a layer, and checks it where the step does so (run.check_products_every).
inline void multiply(Ctx& ctx, const MatmulArgs& args) {
  if (ctx.products != nullptr) return ctx.products->multiply(ctx.stream, ctx.kernels, args);
  ctx.kernels.matmul(ctx.stream, args);
}

}  // namespace trireme
