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

// More than a cache holds, so that every product reads its weight from memory, as a token does.
constexpr int64_t kLeastBytes = int64_t{128} << 20;

// The products of a token of GPT-2 124M, for one prompt and for several.
std::vector<MatmulShape> few_rows_shapes() {
  std::vector<MatmulShape> shapes;
  for (int64_t rows : {1, 4, 8, 16}) {
    for (const auto& [cols, k] : {std::pair(768, 768), {3072, 768}, {768, 3072}, {50257, 768}}) {
      shapes.push_back({rows, cols, k});
    }
  }
  return shapes;
}

template <typename E>
Tensor filled(DType dtype, Shape shape, E value) {
  Tensor tensor(dtype, shape);
  std::fill_n(tensor.ref().as<E>(), shape.num_elements(), value);
  return tensor;
}

// Times products of few rows with as many weights, one after the other, and counts their bytes.
template <typename Multiply>
void bench_few_rows(std::vector<BenchRow>& rows, const BenchContext& context,
                    const std::string& dtype, const MatmulShape& shape, double bytes_of_weight,
                    Multiply&& multiply) {
  const std::string count_of_rows =
      shape.rows == 1 ? "one row" : fmt::format("{} rows", shape.rows);
  const std::string name = fmt::format("{} {}x{} {}", count_of_rows, shape.cols, shape.k, dtype);
  if (!context.wants("matmul", name, DType::BF16)) return;
  const int64_t count = std::max<int64_t>(1, int64_t(double(kLeastBytes) / bytes_of_weight));
  const Tensor x = varied(DType::BF16, Shape{shape.rows, shape.k});
  const Tensor y(DType::BF16, Shape{shape.rows, shape.cols});
  BenchRow row;
  row.family = "matmul";
  row.shape = name;
  row.dtype = DType::BF16;
  row.seconds = multiply(count, matrix(x), matrix(y)) / double(count);
  row.bytes = bytes_of_weight;
  row.formula = "bytes of the weight";
  rows.push_back(row);
}

void bench_products_of_few_rows(std::vector<BenchRow>& rows, const BenchContext& context) {
  for (const MatmulShape& shape : few_rows_shapes()) {
    const int64_t cols = shape.cols, k = shape.k;
    const double elements = double(cols) * double(k);
    bench_few_rows(rows, context, "bf16", shape, 2.0 * elements,
                   [&](int64_t count, MatrixRef x, MatrixRef y) {
                     const Tensor weights = varied(DType::BF16, Shape{count * cols, k});
                     return median_seconds([&] {
                       for (int64_t i = 0; i < count; ++i) {
                         const MatrixRef w = rows_of(matrix(weights), i * cols, cols);
                         context.kernels.matmul(context.stream,
                                                {.form = MatmulForm::NT, .a = x, .b = w, .c = y});
                       }
                     });
                   });
    if (shape.rows > QuantizedMatmulArgs::kFewRows) continue;
    bench_few_rows(rows, context, "q8_0", shape, elements * (1.0 + 2.0 / kScaleBlock),
                   [&](int64_t count, MatrixRef x, MatrixRef y) {
                     const Tensor bytes = filled<uint8_t>(DType::U8, Shape{count * cols, k}, 1);
                     const Tensor scales =
                         filled<f16>(DType::F16, Shape{count * cols, k / kScaleBlock}, f16(0.01f));
                     return median_seconds([&] {
                       for (int64_t i = 0; i < count; ++i) {
                         const QuantizedMatrix w{rows_of(matrix(bytes), i * cols, cols),
                                                 rows_of(matrix(scales), i * cols, cols)};
                         context.kernels.quantized_matmul(context.stream,
                                                          {.x_TC = x, .w = w, .y_TF = y});
                       }
                     });
                   });
  }
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
  bench_products_of_few_rows(rows, context);
}

}  // namespace trireme
