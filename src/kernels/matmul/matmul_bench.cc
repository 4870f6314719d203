#include "kernels/bench.h"
#include "kernels/matmul/matmul_cases.h"

#ifdef TRIREME_HAS_DNNL
#include <dnnl.h>
// Exported by oneDNN 2.x, in no header; row-major, one team of OpenMP threads.
extern "C" dnnl_status_t dnnl_gemm_bf16bf16f32(char transa, char transb, dnnl_dim_t m, dnnl_dim_t n,
                                               dnnl_dim_t k, float alpha, const uint16_t* a,
                                               dnnl_dim_t lda, const uint16_t* b, dnnl_dim_t ldb,
                                               float beta, float* c, dnnl_dim_t ldc);
#endif

namespace trireme {
namespace {

constexpr MatmulForm kForms[] = {MatmulForm::NT, MatmulForm::NN, MatmulForm::TN};
constexpr const char* kFormNames[] = {"NT", "NN", "TN"};

// Small numbers that differ, so that no operand is zero or denormal.
Tensor filled(DType dtype, int64_t rows, int64_t cols) {
  Tensor tensor(dtype, Shape{rows, cols});
  const TensorRef x = tensor;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const float value = float(i * 37 % 101 - 50) / 64.0f;
    if (dtype == DType::F32) {
      x.as<float>()[i] = value;
    } else {
      x.as<bf16>()[i] = bf16(value);
    }
  }
  return tensor;
}

double baseline_seconds([[maybe_unused]] const MatmulArgs& args) {
#ifdef TRIREME_HAS_DNNL
  const bool a_transposed = args.form == MatmulForm::TN;
  const bool b_transposed = args.form == MatmulForm::NT;
  const dnnl_dim_t m = args.c.rows, n = args.c.cols, k = inner_extent(args);
  Tensor c(DType::F32, Shape{m, n});  // the library multiplies bf16 to fp32
  float* c_data = c.ref().as<float>();
  const float beta = args.write == Write::Accumulate ? 1.0f : 0.0f;
  return median_seconds([&] {
    const char ta = a_transposed ? 'T' : 'N', tb = b_transposed ? 'T' : 'N';
    if (args.a.dtype == DType::F32) {
      dnnl_sgemm(ta, tb, m, n, k, 1.0f, args.a.row<float>(0), args.a.stride, args.b.row<float>(0),
                 args.b.stride, beta, c_data, n);
    } else {
      dnnl_gemm_bf16bf16f32(ta, tb, m, n, k, 1.0f, &args.a.row<bf16>(0)->bits, args.a.stride,
                            &args.b.row<bf16>(0)->bits, args.b.stride, beta, c_data, n);
    }
  });
#else
  return 0.0;
#endif
}

BenchRow bench_product(const BenchContext& context, MatmulForm form, const MatmulShape& shape,
                       DType dtype) {
  const auto [m, n, k] = shape;
  const bool a_transposed = form == MatmulForm::TN;
  const bool b_transposed = form == MatmulForm::NT;
  Tensor a = filled(dtype, a_transposed ? k : m, a_transposed ? m : k);
  Tensor b = filled(dtype, b_transposed ? n : k, b_transposed ? k : n);
  Tensor c(form == MatmulForm::TN ? DType::F32 : dtype, Shape{m, n});
  const MatmulArgs args{.form = form,
                        .a = matrix(a),
                        .b = matrix(b),
                        .c = matrix(c),
                        .write = a_transposed ? Write::Accumulate : Write::Overwrite};
  BenchRow row;
  row.family = "matmul";
  row.shape = std::string(kFormNames[int(form)]) + " " + std::to_string(m) + "x" +
              std::to_string(n) + "x" + std::to_string(k);
  row.dtype = dtype;
  row.seconds = median_seconds([&] { context.kernels.matmul(context.stream, args); });
  row.flops = 2.0 * double(m) * double(n) * double(k);
  row.share_of_ceiling = row.flops / row.seconds / context.flop_ceiling(dtype);
  row.baseline_seconds = baseline_seconds(args);
  if (row.baseline_seconds > 0.0) row.baseline = "dnnl_gemm";
  return row;
}

}  // namespace

void bench_matmul(std::vector<BenchRow>& rows, const BenchContext& context) {
  for (DType dtype : {DType::BF16, DType::F32}) {
    BenchRow all[3];  // one form each: the sum over the shapes, which weights them by FLOPs
    for (const LinearShape& linear : training_linear_shapes()) {
      for (MatmulForm form : kForms) {
        rows.push_back(bench_product(context, form, product_of(linear, form), dtype));
        BenchRow& sum = all[int(form)];
        sum.seconds += rows.back().seconds;
        sum.flops += rows.back().flops;
        sum.baseline_seconds += rows.back().baseline_seconds;
        sum.baseline = rows.back().baseline;
      }
    }
    for (MatmulForm form : kForms) {
      BenchRow& sum = all[int(form)];
      sum.family = "matmul";
      sum.shape = std::string(kFormNames[int(form)]) + " all of the above";
      sum.dtype = dtype;
      sum.share_of_ceiling = sum.flops / sum.seconds / context.flop_ceiling(dtype);
      rows.push_back(sum);
    }
  }
}

}  // namespace trireme
