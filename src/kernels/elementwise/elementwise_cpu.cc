#include "kernels/kernels_cpu.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

// Writing past the caches is faster if the result does not fit into them.
constexpr int64_t kStreamingBytes = int64_t{64} << 20;

// Writes y_N = value(position, lanes) over the whole tensor.
template <typename T, typename Value>
TRIREME_INLINE void map(Stream& stream, int64_t n, T* y_N, Value value) {
  const bool aligned = reinterpret_cast<uintptr_t>(y_N) % 64 == 0;
  const bool streaming = aligned && n * int64_t(sizeof(T)) >= kStreamingBytes;
  for_each_tile(stream, n, kTileElements, [&](int64_t begin, int64_t end, int) {
    if (streaming) {
      int64_t i = begin;
      for (; i + kLanes <= end; i += kLanes) store_streaming(y_N + i, value(i, AllLanes{}));
      if (i < end) store(y_N + i, value(i, FirstLanes{end - i}), FirstLanes{end - i});
      _mm_sfence();
      return;
    }
    for_each_vector(end - begin, [&](int64_t i, auto lanes) TRIREME_INLINE_LAMBDA {
      store(y_N + begin + i, value(begin + i, lanes), lanes);
    });
  });
}

}  // namespace

void convert(Stream& stream, const ConvertArgs& args) {
  check_convert(args);
  with_element(args.x_N.dtype, [&]<typename X>(X) {
    with_element(args.y_N.dtype, [&]<typename Y>(Y) {
      const X* x_N = static_cast<const X*>(args.x_N.data);
      map(stream, args.x_N.num_elements(), static_cast<Y*>(args.y_N.data),
          [=](int64_t i, auto lanes) TRIREME_INLINE_LAMBDA { return load(x_N + i, lanes); });
    });
  });
}

void copy_matrix(Stream& stream, const CopyMatrixArgs& args) {
  check_copy_matrix(args);
  const int64_t cols = args.x_TN.cols;
  const bool accumulates = args.write == Write::Accumulate;
  with_element(args.x_TN.dtype, [&]<typename X>(X) {
    with_element(args.y_TN.dtype, [&]<typename Y>(Y) {
      for_each_row_tile(stream, args.x_TN.rows, cols, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; ++t) {
          const X* x_N = args.x_TN.row<X>(t);
          Y* y_N = args.y_TN.row<Y>(t);
          for_each_vector(cols, [&](int64_t i, auto lanes) TRIREME_INLINE_LAMBDA {
            const F32x16 x = load(x_N + i, lanes);
            store(y_N + i, accumulates ? load(y_N + i, lanes) + x : x, lanes);
          });
        }
      });
    });
  });
}

void add(Stream& stream, const AddArgs& args) {
  check_add(args);
  with_state(args.sum_N.dtype, [&]<typename T>(T) {
    const T* x_N = static_cast<const T*>(args.x_N.data);
    T* sum_N = static_cast<T*>(args.sum_N.data);
    for_each_tile(stream, args.x_N.num_elements(), kTileElements,
                  [&](int64_t begin, int64_t end, int) {
                    for_each_vector(end - begin, [&](int64_t i, auto lanes) TRIREME_INLINE_LAMBDA {
                      T* sum = sum_N + begin + i;
                      store(sum, load(sum, lanes) + load(x_N + begin + i, lanes), lanes);
                    });
                  });
  });
}

void sum(Stream& stream, const SumArgs& args) {
  check_sum(args);
  with_element(args.x_N.dtype, [&]<typename T>(T) {
    const T* x_N = static_cast<const T*>(args.x_N.data);
    const T* y_N = static_cast<const T*>(args.y_N.data);
    map(stream, args.x_N.num_elements(), static_cast<T*>(args.out_N.data),
        [=](int64_t i, auto lanes)
            TRIREME_INLINE_LAMBDA { return load(x_N + i, lanes) + load(y_N + i, lanes); });
  });
}

void zero(Stream& stream, const ZeroArgs& args) {
  char* bytes = static_cast<char*>(args.x_N.data);
  const int64_t grain = kTileElements * int64_t(sizeof(float));
  for_each_tile(stream, args.x_N.bytes(), grain, [&](int64_t begin, int64_t end, int) {
    __builtin_memset(bytes + begin, 0, size_t(end - begin));
  });
}

}  // namespace trireme::TRIREME_ISA
