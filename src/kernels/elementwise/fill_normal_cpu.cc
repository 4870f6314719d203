#include "kernels/fp32_math.h"
#include "kernels/kernels_cpu.h"
#include "kernels/simd_philox.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr int64_t kBlock = 128;  // elements of two vectors of Philox counters

// Fills elements first .. first + 127 of the parameter. first is a multiple of 4.
TRIREME_INLINE void fill_block(RngKey key, float stddev, int64_t first, float* x) {
  PhiloxWords words[2];
  philox_of_groups(key, 0, uint64_t(first) / 4, words);
#pragma GCC unroll 2
  for (const PhiloxWords& vector : words) {
    F32x16 a, b, c, d;
    box_muller(vector.word[0], vector.word[1], a, b);
    box_muller(vector.word[2], vector.word[3], c, d);
    transpose_blocks(a, b, c, d);
    store(x, a * broadcast(stddev));
    store(x + kLanes, b * broadcast(stddev));
    store(x + 2 * kLanes, c * broadcast(stddev));
    store(x + 3 * kLanes, d * broadcast(stddev));
    x += 4 * kLanes;
  }
}

// Fills elements [begin, end) of the parameter into x.
void fill(const FillNormalArgs& args, int64_t begin, int64_t end, float* x) {
  int64_t element = begin;
  while (element < end) {
    const int64_t skipped = element % 4;
    if (skipped == 0 && end - element >= kBlock) {
      fill_block(args.key, args.stddev, element, x + (element - begin));
      element += kBlock;
      continue;
    }
    float block[kBlock];
    fill_block(args.key, args.stddev, element - skipped, block);
    const int64_t usable = skipped == 0 ? kBlock : 4 - skipped;  // then the next groups are whole
    const int64_t count = usable < end - element ? usable : end - element;
    __builtin_memcpy(x + (element - begin), block + skipped, size_t(count) * sizeof(float));
    element += count;
  }
}

}  // namespace

void fill_normal(Stream& stream, const FillNormalArgs& args) {
  check_fill_normal(args);
  float* x_N = static_cast<float*>(args.x_N.data);
  for_each_tile(stream, args.x_N.num_elements(), kTileElements,
                [&](int64_t begin, int64_t end, int) {
                  fill(args, args.first_element + begin, args.first_element + end, x_N + begin);
                });
}

}  // namespace trireme::TRIREME_ISA
