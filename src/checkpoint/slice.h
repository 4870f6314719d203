#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/shape.h"

namespace trireme {

// Some elements of a tensor, stored densely in row-major order: a box (the part of a
// tensor-parallel rank) or a range of the flattened tensor (the part of a ZeRO rank). A value type.
class Slice {
 public:
  Slice() = default;
  static Slice whole(const Shape& shape);
  static Slice box(const Shape& begin, const Shape& extent);
  static Slice range(int64_t first, int64_t count);

  bool is_box() const { return is_box_; }
  const Shape& begin() const { return begin_; }    // only for a box
  const Shape& extent() const { return extent_; }  // only for a box
  int64_t first() const { return first_; }         // only for a range
  int64_t count() const { return count_; }         // only for a range

  int64_t num_elements() const { return is_box_ ? extent_.num_elements() : count_; }
  bool is_whole(const Shape& shape) const;
  bool fits(const Shape& shape) const;  // true if it lies inside a tensor of this shape
  std::string to_string() const;        // "[0:4, 8:16]", "{4096:8192}"
  friend bool operator==(const Slice& a, const Slice& b) = default;

 private:
  bool is_box_ = true;
  Shape begin_;
  Shape extent_;
  int64_t first_ = 0;
  int64_t count_ = 0;
};

// A slice as its maximal runs: intervals of the flattened tensor, ascending, all of the same
// length. Run i holds the slice's own elements i * run_length .. (i + 1) * run_length - 1.
class SliceRuns {
 public:
  SliceRuns(const Slice& slice, const Shape& shape);  // the slice must fit the shape

  int64_t num_runs() const { return num_runs_; }
  int64_t run_length() const { return run_length_; }
  int64_t num_elements() const { return num_runs_ * run_length_; }
  int64_t first_of(int64_t run) const;  // position in the flattened tensor
  // Returns the first run that ends after element `flat`, or num_runs() if there is none.
  int64_t run_behind(int64_t flat) const;
  // Returns the position of the slice's own element in the flattened tensor.
  int64_t flat_of(int64_t element) const {
    return first_of(element / run_length_) + element % run_length_;
  }

 private:
  int64_t num_runs_ = 0;
  int64_t run_length_ = 0;
  int64_t origin_ = 0;
  int num_outer_ = 0;  // dims over which runs are counted, outermost first
  int64_t extents_[4] = {};
  int64_t strides_[4] = {};
};

// True if two slices of one tensor share an element.
bool overlap(const Slice& a, const Slice& b, const Shape& shape);

// Calls visit(a_element, b_element, length) for every interval that belongs to b and to a's own
// elements begin .. end - 1, in ascending order.
template <typename Visit>
void for_each_common_run(const SliceRuns& a, int64_t begin, int64_t end, const SliceRuns& b,
                         Visit&& visit) {
  int64_t element = begin;
  while (element < end) {
    const int64_t in_run = element % a.run_length();
    const int64_t flat = a.first_of(element / a.run_length()) + in_run;
    const int64_t flat_end = flat + std::min(a.run_length() - in_run, end - element);
    for (int64_t run = b.run_behind(flat); run < b.num_runs(); ++run) {
      const int64_t b_first = b.first_of(run);
      if (b_first >= flat_end) break;
      const int64_t from = std::max(flat, b_first);
      const int64_t to = std::min(flat_end, b_first + b.run_length());
      visit(element + (from - flat), run * b.run_length() + (from - b_first), to - from);
    }
    element += flat_end - flat;
  }
}

}  // namespace trireme
