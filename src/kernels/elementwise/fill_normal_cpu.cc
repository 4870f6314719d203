#include "kernels/fp32_math.h"
#include "kernels/kernels_cpu.h"
#include "kernels/simd_philox.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr int64_t kBlock = 64;  // elements of 16 Philox counters

// Elements first .. first + 63 of the parameter; first is a multiple of 4.
TRIREME_INLINE void fill_block(RngKey key, float stddev, int64_t first, float* x) {
  const PhiloxWords words = philox_of_groups(key, 0, uint64_t(first) / 4);
  F32x16 normal[4];
  box_muller(words.word[0], words.word[1], normal[0], normal[1]);
  box_muller(words.word[2], words.word[3], normal[2], normal[3]);
  transpose_blocks(normal[0], normal[1], normal[2], normal[3]);
  for (int i = 0; i < 4; ++i) store(x + i * kLanes, normal[i] * broadcast(stddev));
}

// Elements [begin, end) of the parameter, into x.
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
    const int64_t usable = skipped == 0 ? kBlock : 4;  // after a partial group all are whole
    const int64_t stop = element - skipped + usable < end ? element - skipped + usable : end;
    for (int64_t e = element; e < stop; ++e) x[e - begin] = block[e - (element - skipped)];
    element = stop;
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
