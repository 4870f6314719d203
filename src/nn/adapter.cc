#include "nn/adapter.h"

#include "base/element.h"
#include "graph/op_tensors.h"
#include "nn/product.h"

namespace trireme {

void fill_adapter_scale(const ModelSpec& model, const TensorRef& scale_r) {
  for (int64_t i = 0; i < scale_r.num_elements(); ++i) {
    write_element(scale_r.data, scale_r.dtype, i, model.lora_scale);
  }
}

Adapters::Adapters(const OpBinding& b) {
  if (b.op().adapters.empty()) return;
  scale_r_ = b.scratch().at(kAdapterScale);
  inner_Tr_ = b.matrix_of(kAdapterInner);
  for (const Adapter& adapter : b.op().adapters) {
    const Stored& output = b.memory().outputs[adapter.output];
    adapters_.push_back({b.weight(adapter.a), b.weight(adapter.b), b.weight_grad(adapter.a),
                         b.weight_grad(adapter.b), output.column, output.cols});
  }
}

MatrixRef Adapters::scaled(Ctx& ctx, MatrixRef x_Tr) const {
  ctx.kernels.scale_forward(ctx.stream, {x_Tr, scale_r_, x_Tr});
  return x_Tr;
}

MatrixRef Adapters::inner(Ctx& ctx, const SlotMemory& m, const One& one, MatrixRef x_TC) const {
  const MatrixRef inner_Tr = rows_of(m(inner_Tr_), 0, x_TC.rows);
  multiply(ctx, {.form = MatmulForm::NT, .a = x_TC, .b = one.a_rC, .c = inner_Tr});
  return scaled(ctx, inner_Tr);
}

MatrixRef Adapters::inner_grad(Ctx& ctx, const SlotMemory& m, const One& one,
                               MatrixRef dy_TF) const {
  const MatrixRef inner_Tr = rows_of(m(inner_Tr_), 0, dy_TF.rows);
  multiply(ctx, {.form = MatmulForm::NN, .a = output_of(one, dy_TF), .b = one.b_Gr, .c = inner_Tr});
  return scaled(ctx, inner_Tr);
}

void Adapters::add_forward(Ctx& ctx, const SlotMemory& m, MatrixRef x_TC, MatrixRef y_TF) const {
  for (const One& one : adapters_) {
    const MatrixRef y_TG = output_of(one, y_TF);
    multiply(ctx, {.form = MatmulForm::NT,
                   .a = inner(ctx, m, one, x_TC),
                   .b = one.b_Gr,
                   .c = y_TG,
                   .residual_MN = y_TG});
  }
}

void Adapters::add_backward_input(Ctx& ctx, const SlotMemory& m, MatrixRef dy_TF,
                                  MatrixRef dx_TC) const {
  for (const One& one : adapters_) {
    multiply(ctx, {.form = MatmulForm::NN,
                   .a = inner_grad(ctx, m, one, dy_TF),
                   .b = one.a_rC,
                   .c = dx_TC,
                   .residual_MN = dx_TC});
  }
}

void Adapters::backward_weight(Ctx& ctx, const SlotMemory& m, MatrixRef dy_TF, MatrixRef x_TC,
                               Write write) const {
  for (const One& one : adapters_) {
    if (one.db_Gr) {
      multiply(ctx, {.form = MatmulForm::TN,
                     .a = output_of(one, dy_TF),
                     .b = inner(ctx, m, one, x_TC),
                     .c = m(one.db_Gr),
                     .write = write});
    }
    if (!one.da_rC) continue;
    multiply(ctx, {.form = MatmulForm::TN,
                   .a = inner_grad(ctx, m, one, dy_TF),
                   .b = x_TC,
                   .c = m(one.da_rC),
                   .write = write});
  }
}

HeadAdapter::HeadAdapter(const OpBinding& b, size_t output) {
  for (const Adapter& adapter : b.op().adapters) {
    if (adapter.output != output) continue;
    a_rC_ = b.weight(adapter.a);
    b_Fr_ = b.weight(adapter.b);
    scale_r_ = b.scratch().at(kAdapterScale);
    inner_Tr_ = b.matrix_of(kAdapterInner);
  }
}

void HeadAdapter::add_product(Ctx& ctx, const SlotMemory& m, MatrixRef x_tC, int64_t row,
                              MatrixRef y_tG) const {
  if (!a_rC_) return;
  const MatrixRef inner_tr = rows_of(m(inner_Tr_), 0, x_tC.rows);
  multiply(ctx, {.form = MatmulForm::NT, .a = x_tC, .b = a_rC_, .c = inner_tr});
  ctx.kernels.scale_forward(ctx.stream, {inner_tr, scale_r_, inner_tr});
  multiply(ctx, {.form = MatmulForm::NT,
                 .a = inner_tr,
                 .b = rows_of(b_Fr_, row, y_tG.cols),
                 .c = y_tG,
                 .residual_MN = y_tG});
}

void HeadAdapter::add_transposed_product(Ctx& ctx, const SlotMemory& m, MatrixRef x_tG, int64_t row,
                                         MatrixRef y_tC) const {
  if (!a_rC_) return;
  const MatrixRef inner_tr = rows_of(m(inner_Tr_), 0, x_tG.rows);
  multiply(ctx,
           {.form = MatmulForm::NN, .a = x_tG, .b = rows_of(b_Fr_, row, x_tG.cols), .c = inner_tr});
  ctx.kernels.scale_forward(ctx.stream, {inner_tr, scale_r_, inner_tr});
  multiply(ctx,
           {.form = MatmulForm::NN, .a = inner_tr, .b = a_rC_, .c = y_tC, .residual_MN = y_tC});
}

}  // namespace trireme
