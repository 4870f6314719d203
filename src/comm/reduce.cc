#include "comm/reduce.h"

#include <fmt/format.h>
#include <immintrin.h>

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "device/isa.h"

namespace trireme {
namespace {

// Elements per block, so that its partial sums stay in the L1 cache.
constexpr int64_t kBlock = 512;

struct ReduceLoops {
  void (*pair[3])(void* target, const void* left, const void* right, int64_t count);
  void (*tree[3])(void* const* targets, int num_targets, const void* const* sources,
                  int num_sources, int64_t count, int64_t divisor);
  void (*divide)(void* x, int64_t count, int64_t divisor);
};

#define REDUCE_HALF_LANES 1
namespace baseline {
#include "comm/reduce_loops.inc"
}
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#undef REDUCE_HALF_LANES
#define REDUCE_HALF_LANES 8
namespace avx2 {
#include "comm/reduce_loops.inc"
}
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("f16c,avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")
#undef REDUCE_HALF_LANES
#define REDUCE_HALF_LANES 16
namespace avx512 {
#include "comm/reduce_loops.inc"
}
#pragma GCC pop_options
#undef REDUCE_HALF_LANES

std::array<ReduceLoops, 5> choose_loops() {
  const std::vector<Isa> isas = supported_isas();
  if (isas.empty()) return baseline::all_loops();
  return isas.back() == Isa::Avx2 ? avx2::all_loops() : avx512::all_loops();
}

int index_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return 0;
    case DType::BF16:
      return 1;
    case DType::I32:
      return 2;
    case DType::I64:
      return 3;
    case DType::F16:
      return 4;
    default:
      return -1;
  }
}

const ReduceLoops& loops_for(DType dtype) {
  static const std::array<ReduceLoops, 5> kLoops = choose_loops();
  const int index = index_of(dtype);
  TRIREME_CHECK(index >= 0, fmt::format("{} has no reduction", name_of(dtype)));
  return kLoops[index];
}

int index_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Mean:
      return 0;
    case ReduceOp::Max:
      return 1;
    case ReduceOp::Min:
      return 2;
  }
  return 0;
}

}  // namespace

Status check_reducible(DType dtype) {
  if (index_of(dtype) >= 0) return Done{};
  return Error{
      ErrorKind::Usage,
      fmt::format("{} cannot be reduced; fp32, bf16, fp16, int32 and int64 can", name_of(dtype))};
}

void reduce_pair(DType dtype, ReduceOp op, void* target, const void* left, const void* right,
                 int64_t count) {
  loops_for(dtype).pair[index_of(op)](target, left, right, count);
}

void reduce_tree(DType dtype, ReduceOp op, std::span<void* const> targets,
                 std::span<const void* const> sources, int64_t count) {
  const int64_t divisor = op == ReduceOp::Mean ? int64_t(sources.size()) : 1;
  loops_for(dtype).tree[index_of(op)](targets.data(), int(targets.size()), sources.data(),
                                      int(sources.size()), count, divisor);
}

void divide(DType dtype, void* x, int64_t count, int64_t divisor) {
  if (divisor != 1) loops_for(dtype).divide(x, count, divisor);
}

}  // namespace trireme
