#include "kernels/kernels_cpu.h"
#include "kernels/row_sums.h"

namespace trireme::TRIREME_ISA {
namespace {

template <typename T>
void scale_rows(const ScaleForwardArgs& args, int64_t begin, int64_t end) {
  const T* gain_C = static_cast<const T*>(args.gain_C.data);
  for (int64_t t = begin; t < end; ++t) {
    const T* x_C = args.x_TC.row<T>(t);
    T* y_C = args.y_TC.row<T>(t);
    for_each_vector(args.x_TC.cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
      store(y_C + c, load(gain_C + c, lanes) * load(x_C + c, lanes), lanes);
    });
  }
}

template <typename T>
void scale_backward_rows(const ScaleBackwardInputArgs& args, int64_t begin, int64_t end) {
  const T* gain_C = static_cast<const T*>(args.gain_C.data);
  for (int64_t t = begin; t < end; ++t) {
    const T* dy_C = args.dy_TC.row<T>(t);
    const T* addend_C = args.addend_TC ? args.addend_TC.row<T>(t) : nullptr;
    T* dx_C = args.dx_TC.row<T>(t);
    for_each_vector(args.dy_TC.cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
      const F32x16 addend = addend_C ? load(addend_C + c, lanes) : zeros();
      store(dx_C + c, fma(load(gain_C + c, lanes), load(dy_C + c, lanes), addend), lanes);
    });
  }
}

// dgain_C is overwritten with the sums over the chunk's rows.
template <typename T>
void sum_scale_chunk(const ScaleBackwardWeightArgs& args, const RowChunk& chunk, float* dgain_C) {
  for (int64_t t = chunk.begin; t < chunk.end; ++t) {
    const T* x_C = args.x_TC.row<T>(t) + chunk.first_col;
    const T* dy_C = args.dy_TC.row<T>(t) + chunk.first_col;
    const bool first = t == chunk.begin;
    for_each_vector(chunk.cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
      const F32x16 dgain = first ? zeros() : load(dgain_C + c, lanes);
      store(dgain_C + c, fma(load(dy_C + c, lanes), load(x_C + c, lanes), dgain), lanes);
    });
  }
}

}  // namespace

void scale_forward(Stream& stream, const ScaleForwardArgs& args) {
  check_scale_forward(args);
  with_element(args.x_TC.dtype, [&]<typename T>(T) {
    for_each_row_tile(stream, args.x_TC.rows, args.x_TC.cols,
                      [&](int64_t begin, int64_t end, int) { scale_rows<T>(args, begin, end); });
  });
}

void scale_backward_input(Stream& stream, const ScaleBackwardInputArgs& args) {
  check_scale_backward_input(args);
  with_element(args.dy_TC.dtype, [&]<typename T>(T) {
    for_each_row_tile(
        stream, args.dy_TC.rows, args.dy_TC.cols,
        [&](int64_t begin, int64_t end, int) { scale_backward_rows<T>(args, begin, end); });
  });
}

void scale_backward_weight(Stream& stream, const ScaleBackwardWeightArgs& args) {
  check_scale_backward_weight(args);
  with_state(args.dgain_C.dtype, [&]<typename Sum>(Sum) {
    Sum* const sums_C[] = {static_cast<Sum*>(args.dgain_C.data)};
    with_element(args.x_TC.dtype, [&]<typename T>(T) {
      sum_rows(
          stream, args.x_TC.rows, args.x_TC.cols, args.write, sums_C,
          [&](const RowChunk& chunk, float* dgain_C) { sum_scale_chunk<T>(args, chunk, dgain_C); });
    });
  });
}

}  // namespace trireme::TRIREME_ISA
