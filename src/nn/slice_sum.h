#pragma once

#include <array>

#include "nn/ctx.h"
#include "nn/frame.h"
#include "schema/stage_shape.h"

namespace trireme {

// A sum over a rank's slices (graph/slice.h): the part of their binary tree that lies on this rank.
// One slice: its addend.
class SliceSum {
 public:
  SliceSum() = default;
  SliceSum(int num_slices, const Frame& scratch);

  int num_slices() const { return num_slices_; }

  // y_TC, which has no gaps, = the sum of what addend_of(slice, y_TC) writes for each slice.
  template <typename AddendOf>
  void operator()(Ctx& ctx, const MatrixRef& y_TC, const AddendOf& addend_of) const {
    add_up(ctx, 0, num_slices_, 0, y_TC, addend_of);
  }

 private:
  template <typename AddendOf>
  void add_up(Ctx& ctx, int first, int count, size_t level, const MatrixRef& y_TC,
              const AddendOf& addend_of) const {
    if (count == 1) return addend_of(first, y_TC);
    const MatrixRef right_TC = rows_of(right_TC_[level], 0, y_TC.rows);
    add_up(ctx, first, count / 2, level + 1, y_TC, addend_of);
    add_up(ctx, first + count / 2, count / 2, level + 1, right_TC, addend_of);
    add(ctx, right_TC, y_TC);
  }
  static void add(Ctx& ctx, const MatrixRef& x_TC, const MatrixRef& y_TC);

  static constexpr int kLevels = 3;
  static_assert(1 << kLevels == kMostSlices);

  int num_slices_ = 1;
  std::array<MatrixRef, kLevels> right_TC_;  // the sum of the right half
};

}  // namespace trireme
