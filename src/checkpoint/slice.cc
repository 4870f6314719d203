#include "checkpoint/slice.h"

#include <array>

namespace trireme {

Slice Slice::whole(const Shape& shape) {
  const std::array<int64_t, 4> zeros{};
  return box(Shape(std::span(zeros).first(static_cast<size_t>(shape.rank()))), shape);
}

Slice Slice::box(const Shape& begin, const Shape& extent) {
  Slice slice;
  slice.begin_ = begin;
  slice.extent_ = extent;
  return slice;
}

Slice Slice::range(int64_t first, int64_t count) {
  Slice slice;
  slice.is_box_ = false;
  slice.first_ = first;
  slice.count_ = count;
  return slice;
}

bool Slice::is_whole(const Shape& shape) const {
  if (!is_box_) return first_ == 0 && count_ == shape.num_elements();
  return *this == whole(shape);
}

bool Slice::fits(const Shape& shape) const {
  if (!is_box_) {
    const int64_t total = shape.num_elements();
    return first_ >= 0 && count_ >= 0 && first_ <= total && count_ <= total - first_;
  }
  if (begin_.rank() != shape.rank() || extent_.rank() != shape.rank()) return false;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (begin_[dim] < 0 || extent_[dim] < 0 || begin_[dim] > shape[dim]) return false;
    if (extent_[dim] > shape[dim] - begin_[dim]) return false;
  }
  return true;
}

std::string Slice::to_string() const {
  if (!is_box_) {
    return "{" + std::to_string(first_) + ":" + std::to_string(first_ + count_) + "}";
  }
  std::string text = "[";
  for (int dim = 0; dim < extent_.rank(); ++dim) {
    text += (dim > 0 ? ", " : "") + std::to_string(begin_[dim]) + ":" +
            std::to_string(begin_[dim] + extent_[dim]);
  }
  return text + "]";
}

SliceRuns::SliceRuns(const Slice& slice, const Shape& shape) {
  if (slice.num_elements() == 0) return;
  if (!slice.is_box()) {
    num_runs_ = 1;
    run_length_ = slice.count();
    origin_ = slice.first();
    return;
  }
  // Inner dims that are covered completely lengthen the runs, and so does the innermost one that is
  // not.
  int dim = shape.rank() - 1;
  int64_t stride = 1;
  while (dim >= 0 && slice.extent()[dim] == shape[dim]) stride *= shape[dim--];
  run_length_ = stride;
  num_runs_ = 1;
  if (dim < 0) return;
  run_length_ *= slice.extent()[dim];
  origin_ = slice.begin()[dim] * stride;
  stride *= shape[dim];
  num_outer_ = dim;
  for (int outer = dim - 1; outer >= 0; --outer) {
    extents_[outer] = slice.extent()[outer];
    strides_[outer] = stride;
    origin_ += slice.begin()[outer] * stride;
    num_runs_ *= extents_[outer];
    stride *= shape[outer];
  }
}

int64_t SliceRuns::first_of(int64_t run) const {
  int64_t flat = origin_;
  for (int dim = num_outer_ - 1; dim >= 0; --dim) {
    flat += run % extents_[dim] * strides_[dim];
    run /= extents_[dim];
  }
  return flat;
}

int64_t SliceRuns::run_behind(int64_t flat) const {
  int64_t low = 0;
  int64_t high = num_runs_;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (first_of(middle) + run_length_ > flat) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

namespace {

bool boxes_overlap(const Slice& a, const Slice& b) {
  for (int dim = 0; dim < a.extent().rank(); ++dim) {
    if (a.begin()[dim] >= b.begin()[dim] + b.extent()[dim]) return false;
    if (b.begin()[dim] >= a.begin()[dim] + a.extent()[dim]) return false;
  }
  return true;
}

// If one of the two is a range it has a single run, and the loop runs once.
bool runs_overlap(const SliceRuns& a, const SliceRuns& b) {
  if (a.num_runs() > b.num_runs()) return runs_overlap(b, a);
  for (int64_t run = 0; run < a.num_runs(); ++run) {
    const int64_t first = a.first_of(run);
    const int64_t candidate = b.run_behind(first);
    if (candidate < b.num_runs() && b.first_of(candidate) < first + a.run_length()) return true;
  }
  return false;
}

}  // namespace

bool overlap(const Slice& a, const Slice& b, const Shape& shape) {
  if (a.num_elements() == 0 || b.num_elements() == 0) return false;
  if (a.is_box() && b.is_box()) return boxes_overlap(a, b);
  return runs_overlap(SliceRuns(a, shape), SliceRuns(b, shape));
}

}  // namespace trireme
