#include <atomic>
#include <bit>

#include "kernels/kernels_cpu.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

// Sums squares by the exponent of the squared number. Neighbours go to different copies, so that
// one addition does not wait for the other.
constexpr int kCopies = 4;
constexpr int64_t kElementsOfTile = kCopies * kTileElements;
static_assert(kElementsOfTile <= 1 << 16, "as many squares of 48 bits have a sum of 64");

struct SquaresByExponent {
  uint64_t sums[256][kCopies] = {};

  TRIREME_INLINE void add(float x, int copy) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    const uint32_t exponent = bits >> 23 & 0xFF;
    const uint64_t significand = (bits & 0x7FFFFF) | uint32_t{exponent > 0} << 23;
    sums[exponent][copy] += significand * significand;
  }
  void add_to(std::span<int64_t, kExactNormWords> words) const {
    for (int exponent = 0; exponent < 256; ++exponent) {
      uint64_t sum = 0;
      for (const uint64_t of_copy : sums[exponent]) sum += of_copy;
      if (sum != 0) add_squares(sum, exponent > 0 ? exponent : 1, words);
    }
  }
};

}  // namespace

void exact_squared_norm(Stream& stream, const ExactSquaredNormArgs& args) {
  check_exact_squared_norm(args);
  int64_t* words_W = static_cast<int64_t*>(args.words_W.data);
  with_state(args.grad_N.dtype, [&]<typename Grad>(Grad) {
    const Grad* grad_N = static_cast<const Grad*>(args.grad_N.data);
    for_each_tile(stream, args.grad_N.num_elements(), kElementsOfTile,
                  [&](int64_t begin, int64_t end, int) {
                    SquaresByExponent squares;
                    for (int64_t i = begin; i < end; ++i) {
                      squares.add(load_scalar(grad_N + i), int(i % kCopies));
                    }
                    int64_t words[kExactNormWords] = {};
                    squares.add_to(words);
                    for (int w = 0; w < kExactNormWords; ++w) {
                      if (words[w] == 0) continue;
                      std::atomic_ref(words_W[w]).fetch_add(words[w], std::memory_order_relaxed);
                    }
                  });
  });
}

}  // namespace trireme::TRIREME_ISA
