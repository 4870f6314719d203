#include <fmt/format.h>

#include "kernels/bench_tensors.h"
#include "kernels/matmul/matmul_cases.h"

namespace trireme {
namespace {

constexpr MatmulForm kForms[] = {MatmulForm::NT, MatmulForm::NN, MatmulForm::TN};
constexpr const char* kFormNames[] = {"NT", "NN", "TN"};

constexpr const char* kFormula = "2 m n k";

std::string name_of_product(MatmulForm form, const MatmulShape& shape) {
  return fmt::format("{} {}x{}x{}", kFormNames[int(form)], shape.rows, shape.cols, shape.k);
}

// Seconds of the same product in the baseline's convention; its result is always fp32.
double baseline_seconds(const MatmulBaseline& baseline, const MatmulArgs& args) {
  Tensor c(DType::F32, Shape{args.c.rows, args.c.cols});
  return median_seconds([&] { baseline.run(args, c.ref().as<float>()); });
}

BenchRow bench_product(const BenchContext& context, MatmulForm form, const MatmulShape& shape,
                       DType dtype) {
  const auto [m, n, k] = shape;
  const bool a_transposed = form == MatmulForm::TN;
  const bool b_transposed = form == MatmulForm::NT;
  Tensor a = varied(dtype, a_transposed ? Shape{k, m} : Shape{m, k});
  Tensor b = varied(dtype, b_transposed ? Shape{n, k} : Shape{k, n});
  Tensor c(form == MatmulForm::TN ? DType::F32 : dtype, Shape{m, n});
  const MatmulArgs args{.form = form,
                        .a = matrix(a),
                        .b = matrix(b),
                        .c = matrix(c),
                        .write = a_transposed ? Write::Accumulate : Write::Overwrite};
  BenchRow row;
  row.family = "matmul";
  row.shape = name_of_product(form, shape);
  row.dtype = dtype;
  row.seconds = median_seconds([&] { context.kernels.matmul(context.stream, args); });
  row.flops = 2.0 * double(m) * double(n) * double(k);
  row.formula = kFormula;
  if (context.baseline != nullptr) {
    row.baseline = context.baseline->name;
    row.baseline_seconds = baseline_seconds(*context.baseline, args);
  }
  return row;
}

}  // namespace

void bench_matmul(std::vector<BenchRow>& rows, const BenchContext& context) {
  for (DType dtype : {DType::BF16, DType::F32}) {
    BenchRow all[3];  // per form: the sum over all shapes, which weights them by FLOPs
    for (const LinearShape& linear : training_linear_shapes()) {
      for (MatmulForm form : kForms) {
        const MatmulShape shape = product_of(linear, form);
        if (!context.wants("matmul", name_of_product(form, shape), dtype)) continue;
        rows.push_back(bench_product(context, form, shape, dtype));
        BenchRow& sum = all[int(form)];
        sum.seconds += rows.back().seconds;
        sum.flops += rows.back().flops;
        sum.baseline_seconds += rows.back().baseline_seconds;
        sum.baseline = rows.back().baseline;
      }
    }
    for (MatmulForm form : kForms) {
      BenchRow& sum = all[int(form)];
      if (sum.flops == 0.0) continue;
      sum.family = "matmul";
      sum.shape = std::string(kFormNames[int(form)]) + " all of the above";
      sum.dtype = dtype;
      sum.formula = kFormula;
      rows.push_back(sum);
    }
  }
}

}  // namespace trireme
