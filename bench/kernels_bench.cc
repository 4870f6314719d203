// `trireme bench kernels` with oneDNN's products beside ours.
// Usage: kernels_bench [--threads N] [--isa NAME] [--family NAME] [--filter TEXT] [--json]

#include <dnnl.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "cli/bench_kernels_command.h"
#include "kernels/bench.h"

// oneDNN 2.x exports it but no header declares it. It is row-major and uses OpenMP threads.
extern "C" dnnl_status_t dnnl_gemm_bf16bf16f32(char transa, char transb, dnnl_dim_t m, dnnl_dim_t n,
                                               dnnl_dim_t k, float alpha, const uint16_t* a,
                                               dnnl_dim_t lda, const uint16_t* b, dnnl_dim_t ldb,
                                               float beta, float* c, dnnl_dim_t ldc);

namespace trireme {
namespace {

void dnnl_product(const MatmulArgs& args, float* c_MN) {
  const char ta = args.form == MatmulForm::TN ? 'T' : 'N';
  const char tb = args.form == MatmulForm::NT ? 'T' : 'N';
  const dnnl_dim_t m = args.c.rows, n = args.c.cols, k = inner_extent(args);
  const float beta = args.write == Write::Accumulate ? 1.0f : 0.0f;
  if (args.a.dtype == DType::F32) {
    dnnl_sgemm(ta, tb, m, n, k, 1.0f, args.a.row<float>(0), args.a.stride, args.b.row<float>(0),
               args.b.stride, beta, c_MN, n);
  } else {
    dnnl_gemm_bf16bf16f32(ta, tb, m, n, k, 1.0f, &args.a.row<bf16>(0)->bits, args.a.stride,
                          &args.b.row<bf16>(0)->bits, args.b.stride, beta, c_MN, n);
  }
}

int run(int argc, char** argv) {
  const MatmulBaseline baseline = {"dnnl_gemm", dnnl_product};
  BenchKernelsOptions options{.baseline = &baseline};
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const bool has_value = i + 1 < argc;
    if (option == "--json") {
      options.json = true;
    } else if (option == "--threads" && has_value) {
      options.threads = std::max(1, std::atoi(argv[++i]));
    } else if (option == "--isa" && has_value) {
      options.isa = argv[++i];
    } else if (option == "--family" && has_value) {
      options.family = argv[++i];
    } else if (option == "--filter" && has_value) {
      options.filter = argv[++i];
    } else {
      std::cerr
          << "kernels_bench [--threads N] [--isa NAME] [--family NAME] [--filter TEXT] [--json]\n";
      return 2;
    }
  }
  CommandIo io{.out = std::cout, .err = std::cerr};
  const Result<int> code = run_bench_kernels(options, io);
  if (!code.ok()) std::cerr << "error: " << code.error().message << "\n";
  return code.ok() ? *code : 2;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) { return trireme::run(argc, argv); }
