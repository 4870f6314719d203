#include "train/owned_slices.h"

#include <algorithm>

namespace trireme {

std::vector<OwnedSlice> slices_of(const ParamLayout& layout, int64_t first, int64_t count) {
  if (count == layout.global.num_elements()) return {{Slice::whole(layout.global), 0}};
  const bool is_matrix = layout.global.rank() == 2;
  const int64_t row = is_matrix ? layout.extent[1] : 1;
  if (!is_matrix || row == layout.global[1]) {
    return {{Slice::range(layout.begin[0] * row + first, count), 0}};
  }
  std::vector<OwnedSlice> slices;
  const auto add = [&](int64_t element, Shape extent) {
    const Shape begin{layout.begin[0] + element / row, layout.begin[1] + element % row};
    slices.push_back({Slice::box(begin, extent), element - first});
  };
  int64_t element = first;
  const int64_t end = first + count;
  if (element % row != 0) {
    const int64_t left = std::min(end, element / row * row + row) - element;
    add(element, Shape{1, left});
    element += left;
  }
  const int64_t whole_rows = (end - element) / row;
  if (whole_rows > 0) add(element, Shape{whole_rows, row});
  element += whole_rows * row;
  if (element < end) add(element, Shape{1, end - element});
  return slices;
}

}  // namespace trireme
