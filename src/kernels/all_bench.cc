#include "kernels/bench.h"

namespace trireme {

std::vector<BenchFamily> bench_families() {
  return {{"matmul", bench_matmul},         {"moe", bench_moe},
          {"attention", bench_attention},   {"norm", bench_norm},
          {"scale", bench_scale},           {"activation", bench_activation},
          {"embedding", bench_embedding},   {"rope", bench_rope},
          {"loss", bench_cross_entropy},    {"convolution", bench_convolution},
          {"batch_norm", bench_batch_norm}, {"pool", bench_pool},
          {"dropout", bench_dropout},       {"elementwise", bench_elementwise},
          {"optimizer", bench_optimizer}};
}

}  // namespace trireme
