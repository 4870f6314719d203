#pragma once

#include "nn/linear.h"
#include "spec/model_spec.h"

namespace trireme {

// y = residual + dropout(x w^T + b). Without dropout the sum is fused into the matmul and p is not
// touched.
void project_onto_residual(Ctx& ctx, const MicrobatchInfo& info, const Linear& linear, RngKey key,
                           const ModelSpec& model, MatrixRef x_TF, MatrixRef residual_TC,
                           MatrixRef p_TC, MatrixRef y_TC);

// dp = dropout's gradient of dy. Without dropout dp is dy itself and nothing is done.
void residual_dropout_backward(Ctx& ctx, const MicrobatchInfo& info, RngKey key,
                               const ModelSpec& model, MatrixRef dy_TC, MatrixRef dp_TC);

}  // namespace trireme
