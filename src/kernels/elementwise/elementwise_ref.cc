#include <cstring>

#include "kernels/elementwise/elementwise.h"
#include "kernels/ref_access.h"

namespace trireme {

void convert_ref(Stream&, const ConvertArgs& args) {
  check_convert(args);
  for (int64_t i = 0; i < args.x_N.num_elements(); ++i) write(args.y_N, i, read(args.x_N, i));
}

void copy_matrix_ref(Stream&, const CopyMatrixArgs& args) {
  check_copy_matrix(args);
  for (int64_t t = 0; t < args.x_TN.rows; ++t) {
    for (int64_t n = 0; n < args.x_TN.cols; ++n) {
      const double before = args.write == Write::Accumulate ? read(args.y_TN, t, n) : 0.0;
      write(args.y_TN, t, n, before + read(args.x_TN, t, n));
    }
  }
}

void add_ref(Stream&, const AddArgs& args) {
  check_add(args);
  for (int64_t i = 0; i < args.x_N.num_elements(); ++i) {
    write(args.sum_N, i, read(args.sum_N, i) + read(args.x_N, i));
  }
}

void sum_ref(Stream&, const SumArgs& args) {
  check_sum(args);
  for (int64_t i = 0; i < args.x_N.num_elements(); ++i) {
    write(args.out_N, i, float(read(args.x_N, i) + read(args.y_N, i)));
  }
}

void zero_ref(Stream&, const ZeroArgs& args) { std::memset(args.x_N.data, 0, args.x_N.bytes()); }

}  // namespace trireme
